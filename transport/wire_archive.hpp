#pragma once
/// Metadata as bytes: cereal archives that are little-endian everywhere and trust no length.
///
/// A struct says how it is written once, for both directions, in its own namespace:
///
///     template <class Archive>
///     void serialize(Archive& archive, Hello& hello) { archive(hello.run, hello.node_name); }
///
/// Numbers, bool, enumerations, std::string, std::vector, std::optional, the indices of
/// tensors/base/indices.hpp and structs of these can be written. Lengths are u32.

#include <bit>
#include <cereal/cereal.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensors/base/error.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// Bytes that do not say what they should; the message is one line that names what was being read.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Writes values one after another.
class WireWriter : public cereal::OutputArchive<WireWriter> {
 public:
  WireWriter() : OutputArchive(this) {}

  void write(const void* data, std::size_t count) {
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + count);
  }
  /// The bytes so far; the writer is then empty.
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads them again. Every member throws WireError where the bytes end too early or make no sense.
class WireReader : public cereal::InputArchive<WireReader> {
 public:
  /// `what` names the whole in messages and must outlive the reader.
  WireReader(std::span<const std::byte> bytes, std::string_view what)
      : InputArchive(this), bytes_(bytes), what_(what) {}

  void read(void* data, std::size_t count);
  /// Reads a u32 that counts items of at least `item_bytes` bytes each, and checks that so many are left.
  std::size_t read_length(std::size_t item_bytes);
  [[nodiscard]] std::size_t remaining() const { return bytes_.size(); }
  /// The bytes that follow, without a copy.
  std::span<const std::byte> read_bytes(std::size_t count);
  /// Throws unless everything was read.
  void finish() const;
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  std::span<const std::byte> bytes_;
  std::string_view what_;
};

// -- numbers ---------------------------------------------------------------------------------------------

template <class T>
concept WireNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <WireNumber T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& archive, const T& value) {
  archive.write(&value, sizeof value);
}
template <WireNumber T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& archive, T& value) {
  archive.read(&value, sizeof value);
}
inline void CEREAL_SAVE_FUNCTION_NAME(WireWriter& archive, const bool& value) {
  const std::uint8_t byte = value ? 1 : 0;
  archive.write(&byte, 1);
}
inline void CEREAL_LOAD_FUNCTION_NAME(WireReader& archive, bool& value) {
  std::uint8_t byte = 0;
  archive.read(&byte, 1);
  if (byte > 1) archive.fail("a truth value is " + std::to_string(byte));
  value = byte == 1;
}

// -- texts, lists, what may be lacking -------------------------------------------------------------------

inline void write_length(WireWriter& archive, std::size_t count) {
  ZEROLOCK_INVARIANT(count <= std::numeric_limits<std::uint32_t>::max(), "a length fits 32 bits");
  archive(static_cast<std::uint32_t>(count));
}

inline void CEREAL_SAVE_FUNCTION_NAME(WireWriter& archive, const std::string& text) {
  write_length(archive, text.size());
  archive.write(text.data(), text.size());
}
inline void CEREAL_LOAD_FUNCTION_NAME(WireReader& archive, std::string& text) {
  const std::span<const std::byte> bytes = archive.read_bytes(archive.read_length(1));
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& archive, const std::vector<T>& items) {
  write_length(archive, items.size());
  if constexpr (WireNumber<T>) {
    archive.write(items.data(), items.size() * sizeof(T));
  } else {
    for (const T& item : items) archive(item);
  }
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& archive, std::vector<T>& items) {
  if constexpr (WireNumber<T>) {
    items.resize(archive.read_length(sizeof(T)));
    archive.read(items.data(), items.size() * sizeof(T));
  } else {
    // Grows as items are read: a length alone allocates nothing.
    items.clear();
    for (std::size_t left = archive.read_length(1); left > 0; --left) archive(items.emplace_back());
  }
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& archive, const std::optional<T>& value) {
  archive(value.has_value());
  if (value) archive(*value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& archive, std::optional<T>& value) {
  bool present = false;
  archive(present);
  value.reset();
  if (present) archive(value.emplace());
}

// -- the indices of a run --------------------------------------------------------------------------------

template <class Archive, class Tag>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, Index<Tag>& index) {
  archive(index.value);
}
template <class Archive>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, BatchPosition& position) {
  archive(position.window, position.micro_batch);
}
template <class Archive>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, LayerRange& layers) {
  archive(layers.first, layers.last);
}

/// Fails unless an enumeration that was read is one of first..last.
template <class Enum>
void check_enumeration(const WireReader& reader, Enum value, Enum first, Enum last, std::string_view name) {
  if (value < first || value > last) {
    reader.fail("unknown " + std::string(name) + " " +
                std::to_string(static_cast<std::underlying_type_t<Enum>>(value)));
  }
}

// -- whole structs ---------------------------------------------------------------------------------------

template <class T>
[[nodiscard]] std::vector<std::byte> to_wire(const T& value) {
  WireWriter writer;
  writer(value);
  return writer.take();
}

/// `what` names the struct in messages: "hello". Throws WireError also for bytes that are left over.
template <class T>
[[nodiscard]] T from_wire(std::span<const std::byte> bytes, std::string_view what) {
  WireReader reader(bytes, what);
  T value{};
  reader(value);
  reader.finish();
  return value;
}

}  // namespace zerolock

CEREAL_REGISTER_ARCHIVE(zerolock::WireWriter)
CEREAL_REGISTER_ARCHIVE(zerolock::WireReader)
CEREAL_SETUP_ARCHIVE_TRAITS(zerolock::WireReader, zerolock::WireWriter)
