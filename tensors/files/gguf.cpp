#include "tensors/files/gguf.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/mapped_file.hpp"

namespace zerolock {
namespace {

constexpr std::uint32_t dimensions_max = 4;
constexpr std::int64_t alignment_max = 1 << 20;

/// The value types of GGUF's metadata, numbered as in the file.
enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// ggml's element types, numbered as in the file; those without a format are known by name only.
struct ElementType {
  std::uint32_t number;
  std::string_view name;
  std::optional<StorageFormat> format;
};
constexpr std::array element_types{
    ElementType{0, "F32", StorageFormat::f32},    ElementType{1, "F16", StorageFormat::f16},
    ElementType{2, "Q4_0", StorageFormat::q4_0},  ElementType{3, "Q4_1", StorageFormat::q4_1},
    ElementType{6, "Q5_0", StorageFormat::q5_0},  ElementType{7, "Q5_1", StorageFormat::q5_1},
    ElementType{8, "Q8_0", StorageFormat::q8_0},  ElementType{9, "Q8_1", std::nullopt},
    ElementType{10, "Q2_K", std::nullopt},        ElementType{11, "Q3_K", std::nullopt},
    ElementType{12, "Q4_K", StorageFormat::q4_k}, ElementType{13, "Q5_K", std::nullopt},
    ElementType{14, "Q6_K", StorageFormat::q6_k}, ElementType{15, "Q8_K", std::nullopt},
    ElementType{16, "IQ2_XXS", std::nullopt},     ElementType{17, "IQ2_XS", std::nullopt},
    ElementType{18, "IQ3_XXS", std::nullopt},     ElementType{19, "IQ1_S", std::nullopt},
    ElementType{20, "IQ4_NL", std::nullopt},      ElementType{21, "IQ3_S", std::nullopt},
    ElementType{22, "IQ2_S", std::nullopt},       ElementType{23, "IQ4_XS", std::nullopt},
    ElementType{24, "I8", std::nullopt},          ElementType{25, "I16", std::nullopt},
    ElementType{26, "I32", StorageFormat::i32},   ElementType{27, "I64", StorageFormat::i64},
    ElementType{28, "F64", StorageFormat::f64},   ElementType{29, "IQ1_M", std::nullopt},
    ElementType{30, "BF16", StorageFormat::bf16}, ElementType{34, "TQ1_0", std::nullopt},
    ElementType{35, "TQ2_0", std::nullopt},       ElementType{39, "MXFP4", std::nullopt},
};

StorageFormat format_of(const std::string& where, std::uint32_t number) {
  std::string name = "number " + std::to_string(number), supported;
  for (const ElementType& type : element_types) {
    if (type.number == number) {
      if (type.format) return *type.format;
      name = type.name;
    }
    if (type.format) supported += (supported.empty() ? "" : ", ") + std::string(type.name);
  }
  throw InputError(where, "the type " + name + " is not supported (supported: " + supported + ")");
}

/// Reads forward through the file and refuses to read past its end.
class Cursor {
 public:
  Cursor(std::string where, std::span<const std::byte> bytes) : where_(std::move(where)), bytes_(bytes) {}

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - position_; }

  template <class Number>
  Number number(const std::string& what) {
    Number value;
    need(sizeof value, what);
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  std::string text(const std::string& what) {
    const auto size = number<std::uint64_t>("the length of " + what);
    need(size, what);
    std::string value(reinterpret_cast<const char*>(bytes_.data() + position_),
                      static_cast<std::size_t>(size));
    position_ += static_cast<std::size_t>(size);
    return value;
  }

  /// A count of things that take at least `bytes_each` bytes, so that it cannot ask for more memory than the
  /// file has.
  std::size_t count(const std::string& what, std::size_t bytes_each) {
    const auto value = number<std::uint64_t>("the number of " + what);
    if (value > left() / bytes_each) {
      throw InputError(where_, "claims " + std::to_string(value) + " " + what + ", only " +
                                   std::to_string(left()) + " bytes are left");
    }
    return static_cast<std::size_t>(value);
  }

 private:
  void need(std::uint64_t size, const std::string& what) const {
    if (size > left()) {
      throw InputError(where_, "ends within " + what + " (" + std::to_string(size) +
                                   " bytes needed at byte " + std::to_string(position_) + ", " +
                                   std::to_string(left()) + " left)");
    }
  }

  std::string where_;
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

std::int64_t to_signed(const Cursor& cursor, const std::string& key, std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw InputError(cursor.where(), key + ": " + std::to_string(value) + " is too large");
  }
  return static_cast<std::int64_t>(value);
}

/// Calls `use` with a zero of the C++ type of a metadata number; false for texts, arrays and unknown types.
template <class Use>
bool with_number_type(ValueType type, Use use) {
  switch (type) {
    case ValueType::u8:
      return use(std::uint8_t{}), true;
    case ValueType::i8:
      return use(std::int8_t{}), true;
    case ValueType::u16:
      return use(std::uint16_t{}), true;
    case ValueType::i16:
      return use(std::int16_t{}), true;
    case ValueType::u32:
      return use(std::uint32_t{}), true;
    case ValueType::i32:
      return use(std::int32_t{}), true;
    case ValueType::u64:
      return use(std::uint64_t{}), true;
    case ValueType::i64:
      return use(std::int64_t{}), true;
    case ValueType::f32:
      return use(float{}), true;
    case ValueType::f64:
      return use(double{}), true;
    case ValueType::boolean:
      return use(bool{}), true;
    default:
      return false;
  }
}

/// One number of the given C++ type, as double, int64 or (read as a byte) bool.
template <class Number>
auto read_number(Cursor& cursor, const std::string& key) {
  if constexpr (std::is_same_v<Number, bool>) {
    return cursor.number<std::uint8_t>(key) != 0;
  } else if constexpr (std::is_floating_point_v<Number>) {
    return static_cast<double>(cursor.number<Number>(key));
  } else if constexpr (std::is_same_v<Number, std::uint64_t>) {
    return to_signed(cursor, key, cursor.number<std::uint64_t>(key));
  } else {
    return static_cast<std::int64_t>(cursor.number<Number>(key));
  }
}

GgufValue read_array(Cursor& cursor, const std::string& key) {
  const auto type = static_cast<ValueType>(cursor.number<std::uint32_t>("the element type of " + key));
  if (type == ValueType::text) {
    std::vector<std::string> list(cursor.count("texts in " + key, sizeof(std::uint64_t)));
    for (std::string& item : list) item = cursor.text(key);
    return list;
  }
  GgufValue value;
  const bool known = with_number_type(type, [&](auto zero) {
    using Number = decltype(zero);
    using Item = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
    std::vector<Item> list(cursor.count("numbers in " + key, sizeof(Number)));
    for (Item& item : list) item = read_number<Number>(cursor, key);
    value = std::move(list);
  });
  if (!known) {
    throw InputError(cursor.where(), key + " is an array of type " +
                                         std::to_string(static_cast<std::uint32_t>(type)) +
                                         ", which is not supported");
  }
  return value;
}

GgufValue read_value(Cursor& cursor, const std::string& key) {
  const auto type = static_cast<ValueType>(cursor.number<std::uint32_t>("the type of " + key));
  if (type == ValueType::text) return cursor.text(key);
  if (type == ValueType::array) return read_array(cursor, key);
  GgufValue value;
  const bool known =
      with_number_type(type, [&](auto zero) { value = read_number<decltype(zero)>(cursor, key); });
  if (!known) {
    throw InputError(cursor.where(),
                     key + " has the unknown value type " + std::to_string(static_cast<std::uint32_t>(type)));
  }
  return value;
}

/// What the file says of a tensor before the tensors' bytes begin.
struct TensorClaim {
  std::string name;
  StorageFormat format = StorageFormat::f32;
  std::vector<std::int64_t> shape;  // row-major
  std::uint64_t offset = 0;         // from the start of the tensor data
  std::uint64_t bytes = 0;
};

TensorClaim read_claim(Cursor& cursor) {
  TensorClaim claim;
  claim.name = cursor.text("a tensor's name");
  const std::string where = cursor.where() + ", tensor " + claim.name;
  const auto dimensions = cursor.number<std::uint32_t>("the dimensions of tensor " + claim.name);
  if (dimensions < 1 || dimensions > dimensions_max) {
    throw InputError(where, "has " + std::to_string(dimensions) + " dimensions, must be 1 to " +
                                std::to_string(dimensions_max));
  }
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    const auto size = cursor.number<std::uint64_t>("the shape of tensor " + claim.name);
    if (size == 0) throw InputError(where, "has a dimension of size 0");
    // The product with the largest block's bytes still fits 64 bits.
    if (__builtin_mul_overflow(elements, size, &elements) || elements > (std::uint64_t{1} << 55)) {
      throw InputError(where, "the shape is too large for any memory");
    }
    claim.shape.insert(claim.shape.begin(), static_cast<std::int64_t>(size));
  }
  claim.format = format_of(where, cursor.number<std::uint32_t>("the type of tensor " + claim.name));
  const std::int64_t block = block_elements(claim.format);
  if (claim.shape.back() % block != 0) {
    throw InputError(where, "rows of " + std::to_string(claim.shape.back()) + " elements cannot be " +
                                std::string(to_string(claim.format)) + ", which packs " +
                                std::to_string(block));
  }
  claim.bytes = elements / static_cast<std::uint64_t>(block) * block_bytes(claim.format);
  claim.offset = cursor.number<std::uint64_t>("the offset of tensor " + claim.name);
  return claim;
}

/// Each tensor inside the data, aligned, and none over another.
void check_claims(const std::string& where, std::vector<TensorClaim>& claims, std::uint64_t data_bytes,
                  std::uint64_t alignment) {
  std::sort(claims.begin(), claims.end(), [](const TensorClaim& left, const TensorClaim& right) {
    return std::pair(left.offset, left.bytes) < std::pair(right.offset, right.bytes);
  });
  std::uint64_t covered = 0;
  for (const TensorClaim& claim : claims) {
    const std::string tensor = where + ", tensor " + claim.name;
    if (claim.offset % alignment != 0) {
      throw InputError(tensor, "its offset " + std::to_string(claim.offset) +
                                   " is not a multiple of the alignment " + std::to_string(alignment));
    }
    if (claim.offset > data_bytes || claim.bytes > data_bytes - claim.offset) {
      throw InputError(tensor, "needs " + std::to_string(claim.bytes) + " bytes (" +
                                   std::string(to_string(claim.format)) + ") at offset " +
                                   std::to_string(claim.offset) + ", the file has " +
                                   std::to_string(data_bytes) + " bytes of tensor data: truncated");
    }
    if (claim.offset < covered) throw InputError(tensor, "overlaps another tensor's bytes");
    covered = claim.offset + claim.bytes;
  }
}

const char* kind_of(const GgufValue& value) {
  static constexpr const char* names[] = {"a boolean",      "an integer",         "a float",
                                          "a text",         "a list of integers", "a list of floats",
                                          "a list of texts"};
  return names[value.index()];
}

template <class Kind>
const Kind* find_as(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return nullptr;
  if (const Kind* value = std::get_if<Kind>(&found->second)) return value;
  throw InputError(file.path().string(),
                   key + " must be " + kind_of(GgufValue(Kind{})) + ", is " + kind_of(found->second));
}

template <class Kind>
const Kind& get_as(const GgufFile& file, const std::string& key) {
  const Kind* const value = find_as<Kind>(file, key);
  if (value == nullptr) throw InputError(file.path().string(), key + " is missing");
  return *value;
}

template <class Kind>
std::optional<Kind> optional_as(const GgufFile& file, const std::string& key) {
  const Kind* const value = find_as<Kind>(file, key);
  return value == nullptr ? std::nullopt : std::optional<Kind>(*value);
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapping = MappedFile::open(file);
  Cursor cursor(file.string(), mapping->bytes());
  if (cursor.left() < 4 || std::memcmp(mapping->bytes().data(), "GGUF", 4) != 0) {
    throw InputError(file.string(), "is not a GGUF file: it does not begin with \"GGUF\"");
  }
  static_cast<void>(cursor.number<std::uint32_t>("the magic"));
  const auto version = cursor.number<std::uint32_t>("the version");
  if (version != 2 && version != 3) {
    throw InputError(file.string(), "GGUF version " + std::to_string(version) +
                                        " is not supported (supported: 2 and 3, little-endian)");
  }
  std::shared_ptr<GgufFile> opened(new GgufFile);
  opened->path_ = file;
  opened->bytes_ = mapping->bytes();
  opened->mapping_ = mapping;

  // The shortest tensor description and the shortest metadata entry bound how many there can be.
  const std::size_t tensor_count = cursor.count("tensors", 8 + 4 + 8 + 4 + 8);
  const std::size_t value_count = cursor.count("metadata entries", 8 + 4 + 1);
  for (std::size_t i = 0; i < value_count; ++i) {
    std::string key = cursor.text("a metadata key");
    GgufValue value = read_value(cursor, key);
    if (!opened->metadata_.emplace(key, std::move(value)).second) {
      throw InputError(file.string(), "names " + key + " twice");
    }
  }
  std::vector<TensorClaim> claims;
  claims.reserve(tensor_count);
  for (std::size_t i = 0; i < tensor_count; ++i) claims.push_back(read_claim(cursor));

  const std::int64_t alignment = opened->optional_integer("general.alignment").value_or(32);
  if (alignment < 1 || alignment > alignment_max ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    throw InputError(file.string(), "general.alignment is " + std::to_string(alignment) +
                                        ", must be a power of two up to " + std::to_string(alignment_max));
  }
  const std::size_t padding = static_cast<std::size_t>(alignment) - 1;
  const std::size_t start = std::min((cursor.position() + padding) & ~padding, opened->bytes_.size());
  check_claims(file.string(), claims, opened->bytes_.size() - start, static_cast<std::uint64_t>(alignment));
  for (TensorClaim& claim : claims) {
    const std::byte* const data = opened->bytes_.data() + start + claim.offset;
    StoredTensor tensor(claim.name, claim.format, std::move(claim.shape), data, mapping);
    if (!opened->tensors_.emplace(claim.name, std::move(tensor)).second) {
      throw InputError(file.string(), "names tensor " + claim.name + " twice");
    }
  }
  return opened;
}

bool GgufFile::metadata_bool(const std::string& key) const {
  return get_as<bool>(*this, key);
}
std::int64_t GgufFile::metadata_integer(const std::string& key) const {
  return get_as<std::int64_t>(*this, key);
}

double GgufFile::metadata_float(const std::string& key) const {
  const std::optional<double> value = optional_float(key);
  if (!value) throw InputError(path_.string(), key + " is missing");
  return *value;
}

const std::string& GgufFile::metadata_string(const std::string& key) const {
  return get_as<std::string>(*this, key);
}

const std::vector<std::int64_t>& GgufFile::metadata_integers(const std::string& key) const {
  return get_as<std::vector<std::int64_t>>(*this, key);
}

const std::vector<double>& GgufFile::metadata_floats(const std::string& key) const {
  return get_as<std::vector<double>>(*this, key);
}

const std::vector<std::string>& GgufFile::metadata_strings(const std::string& key) const {
  return get_as<std::vector<std::string>>(*this, key);
}

std::optional<bool> GgufFile::optional_bool(const std::string& key) const {
  return optional_as<bool>(*this, key);
}

std::optional<std::int64_t> GgufFile::optional_integer(const std::string& key) const {
  return optional_as<std::int64_t>(*this, key);
}

std::optional<double> GgufFile::optional_float(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found != metadata_.end() && std::holds_alternative<std::int64_t>(found->second)) {
    return static_cast<double>(std::get<std::int64_t>(found->second));
  }
  return optional_as<double>(*this, key);
}

std::optional<std::string> GgufFile::optional_string(const std::string& key) const {
  return optional_as<std::string>(*this, key);
}

}  // namespace zerolock
