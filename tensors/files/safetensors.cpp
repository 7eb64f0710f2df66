#include "tensors/files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/json_object.hpp"
#include "tensors/files/mapped_file.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

// The reference implementation's bound: it keeps a hostile header from costing more than it could be worth.
constexpr std::uint64_t header_bytes_max = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";

struct TypeName {
  std::string_view name;
  StorageFormat format;
};
constexpr std::array type_names{
    TypeName{"F64", StorageFormat::f64}, TypeName{"F32", StorageFormat::f32},
    TypeName{"F16", StorageFormat::f16}, TypeName{"BF16", StorageFormat::bf16},
    TypeName{"I64", StorageFormat::i64}, TypeName{"I32", StorageFormat::i32},
    TypeName{"U8", StorageFormat::u8},
};

std::optional<StorageFormat> format_of(std::string_view name) {
  for (const TypeName& type : type_names) {
    if (type.name == name) return type.format;
  }
  return std::nullopt;
}

std::string_view name_of(StorageFormat format) {
  for (const TypeName& type : type_names) {
    if (type.format == format) return type.name;
  }
  throw std::logic_error("safetensors has no type for " + std::string(to_string(format)));
}

std::string known_types() {
  std::string list;
  for (const TypeName& type : type_names) list += (list.empty() ? "" : ", ") + std::string(type.name);
  return list;
}

/// Where one tensor lies in the data part, as claimed by the header and checked for itself.
struct Place {
  StorageFormat format = StorageFormat::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t read_unsigned(const std::string& where, const json& value, const char* what) {
  if (!value.is_number_unsigned())
    throw InputError(where, std::string(what) + " must be a non-negative integer");
  return value.get<std::uint64_t>();
}

/// The bytes that a shape asks for; refuses products that do not fit 63 bits.
std::uint64_t bytes_of_shape(const std::string& where, const std::vector<std::int64_t>& shape,
                             StorageFormat format) {
  std::uint64_t bytes = block_bytes(format);
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes) ||
        bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw InputError(where, "the shape is too large for any memory");
    }
  }
  return bytes;
}

Place read_place(const std::string& where, const json& value, std::uint64_t data_bytes) {
  const JsonObject entry(where, value);
  Place place;
  const std::string type_name = entry.text("dtype");
  const std::optional<StorageFormat> format = format_of(type_name);
  if (!format) entry.refuse("dtype", "\"" + type_name + "\" is unknown (supported: " + known_types() + ")");
  place.format = *format;

  const json& shape = entry.value("shape");
  if (!shape.is_array()) entry.refuse("shape", "must be a list, is " + describe(shape));
  for (const json& size : shape) {
    const std::uint64_t elements = read_unsigned(where, size, "every size of the shape");
    if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw InputError(where, "the shape is too large for any memory");
    }
    place.shape.push_back(static_cast<std::int64_t>(elements));
  }

  const json& offsets = entry.value("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    entry.refuse("data_offsets", "must be a list of two integers");
  place.begin = read_unsigned(where, offsets[0], "every offset");
  place.end = read_unsigned(where, offsets[1], "every offset");
  if (place.begin > place.end || place.end > data_bytes) {
    throw InputError(where, "the offsets " + offsets.dump() + " do not lie in the file's " +
                                std::to_string(data_bytes) + " data bytes");
  }
  const std::uint64_t needed = bytes_of_shape(where, place.shape, place.format);
  if (needed != place.end - place.begin) {
    throw InputError(where, "the shape " + shape.dump() + " of " + type_name + " needs " +
                                std::to_string(needed) + " bytes, the offsets hold " +
                                std::to_string(place.end - place.begin));
  }
  return place;
}

TextMap read_metadata(const std::string& where, const json& entry) {
  if (!entry.is_object()) throw InputError(where, "__metadata__ must be an object, is " + describe(entry));
  TextMap metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw InputError(where, "the metadata \"" + key + "\" must be a text");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// The format wants the data part covered exactly once.
void check_coverage(const std::string& where, const std::map<std::string, Place>& places,
                    std::uint64_t data_bytes) {
  std::vector<const std::pair<const std::string, Place>*> order;
  order.reserve(places.size());
  for (const auto& entry : places) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* left, const auto* right) {
    return std::pair(left->second.begin, left->second.end) <
           std::pair(right->second.begin, right->second.end);
  });
  std::uint64_t covered = 0;
  for (const auto* entry : order) {
    const auto& [name, place] = *entry;
    if (place.begin < covered) throw InputError(where, "tensor " + name + " overlaps another tensor's bytes");
    if (place.begin > covered) {
      throw InputError(where, "bytes " + std::to_string(covered) + " to " + std::to_string(place.begin) +
                                  " before tensor " + name + " belong to no tensor");
    }
    covered = place.end;
  }
  if (covered != data_bytes) {
    throw InputError(where, std::to_string(data_bytes - covered) + " bytes at the end belong to no tensor");
  }
}

using Outlines = std::map<std::string, TensorOutline>;
using NamedOutline = std::pair<std::string, TensorOutline>;

std::uint64_t bytes_of(const TensorOutline& outline) {
  return bytes_of_shape("a tensor to be written", outline.shape, storage_format_of(outline.type));
}

/// The order in which tensors are written.
std::vector<NamedOutline> ordered(const Outlines& outlines) {
  std::vector<NamedOutline> order(outlines.begin(), outlines.end());
  std::stable_sort(order.begin(), order.end(), [](const NamedOutline& left, const NamedOutline& right) {
    return c10::elementSize(left.second.type) > c10::elementSize(right.second.type);
  });
  return order;
}

Outlines outlines_of(const TensorMap& tensors) {
  Outlines outlines;
  for (const auto& [name, tensor] : tensors) {
    ZEROLOCK_INVARIANT(tensor.defined() && name != metadata_key,
                       "a safetensors file holds named, defined tensors");
    // Only the type is asked for, so the values need not be contiguous or on the CPU yet.
    outlines[name] = {tensor.scalar_type(), tensor.sizes().vec()};
  }
  return outlines;
}

/// Length, JSON and padding: everything before the tensors' bytes.
std::string make_header(const std::vector<NamedOutline>& order, const TextMap& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header.emplace(metadata_key, metadata);
  std::uint64_t offset = 0;
  for (const auto& [name, outline] : order) {
    const std::uint64_t end = offset + bytes_of(outline);
    header.emplace(name, nlohmann::ordered_json{{"dtype", name_of(storage_format_of(outline.type))},
                                                {"shape", outline.shape},
                                                {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);  // little-endian, as is every machine this builds on
  return bytes + text;
}

std::string_view bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes()};
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapping = MappedFile::open(file);
  const std::span<const std::byte> bytes = mapping->bytes();
  const std::string where = file.string();
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    throw InputError(where,
                     "is too short to be a safetensors file (" + std::to_string(bytes.size()) + " bytes)");
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > bytes.size() - sizeof header_bytes) {
    throw InputError(where, "the header claims " + std::to_string(header_bytes) + " bytes, the file has " +
                                std::to_string(bytes.size()) + ": not a safetensors file, or truncated");
  }
  if (header_bytes > header_bytes_max) {
    throw InputError(where, "the header claims " + std::to_string(header_bytes) + " bytes; at most " +
                                std::to_string(header_bytes_max) + " are allowed");
  }
  const std::byte* const data = bytes.data() + sizeof header_bytes + header_bytes;
  const std::uint64_t data_bytes = bytes.size() - sizeof header_bytes - header_bytes;

  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + sizeof header_bytes),
                              header_bytes);
  const json header = parse_json_object(where + ", header", text);
  std::shared_ptr<SafetensorsFile> opened(new SafetensorsFile);
  opened->path_ = file;
  opened->bytes_ = bytes;
  opened->mapping_ = mapping;
  std::map<std::string, Place> places;
  const std::string tensor_where = where + ", tensor ";
  for (const auto& [name, entry] : header.items()) {
    if (name == metadata_key) {
      opened->metadata_ = read_metadata(where, entry);
    } else {
      places.emplace(name, read_place(tensor_where + name, entry, data_bytes));
    }
  }
  check_coverage(where, places, data_bytes);
  for (auto& [name, place] : places) {
    opened->tensors_.emplace(
        name, StoredTensor(name, place.format, std::move(place.shape), data + place.begin, mapping));
  }
  return opened;
}

const StoredTensor& SafetensorsFile::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw InputError(path_.string(), "has no tensor " + name);
  return found->second;
}

std::string serialise_safetensors(const TensorMap& tensors, const TextMap& metadata) {
  const std::vector<NamedOutline> order = ordered(outlines_of(tensors));
  std::string bytes = make_header(order, metadata);
  std::size_t size = bytes.size();
  for (const auto& [name, tensor] : tensors) size += tensor.nbytes();
  bytes.reserve(size);
  for (const auto& [name, outline] : order) bytes += bytes_of(tensors.at(name).detach().cpu().contiguous());
  return bytes;
}

void write_safetensors(const std::filesystem::path& file, const Outlines& outlines,
                       const std::function<at::Tensor(const std::string& name)>& make,
                       const TextMap& metadata) {
  const std::vector<NamedOutline> order = ordered(outlines);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << make_header(order, metadata);
  for (const auto& [name, outline] : order) {
    const at::Tensor contiguous = make(name).detach().cpu().contiguous();
    ZEROLOCK_INVARIANT(contiguous.scalar_type() == outline.type && contiguous.sizes() == outline.shape,
                       "a tensor is as its outline says");
    const std::string_view bytes = bytes_of(contiguous);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) break;
  }
  out.close();
  if (!out) throw RunError(file.string() + ": cannot be written");
}

void write_safetensors(const std::filesystem::path& file, const TensorMap& tensors, const TextMap& metadata) {
  const auto make = [&tensors](const std::string& name) { return tensors.at(name); };
  write_safetensors(file, outlines_of(tensors), make, metadata);
}

}  // namespace zerolock
