#include "tensors/files/json_object.hpp"

#include <cmath>
#include <set>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/mapped_file.hpp"

namespace zerolock {

using nlohmann::json;

json parse_json_object(const std::string& where, std::string_view text) {
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key &&
               !open_objects.back().insert(value.get<std::string>()).second) {
      throw InputError(where, "names \"" + value.get<std::string>() + "\" twice");
    }
    return true;
  };
  try {
    json object = json::parse(text.begin(), text.end(), watch);
    if (!object.is_object()) throw InputError(where, "is not a JSON object");
    return object;
  } catch (const json::exception& error) {
    throw InputError(where, "is not valid JSON: " + std::string(error.what()));
  }
}

json read_json_object(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapping = MappedFile::open(file);
  const std::span<const std::byte> bytes = mapping->bytes();
  return parse_json_object(file.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string describe(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.dump();
}

JsonObject::JsonObject(std::string where, const json& value) : where_(std::move(where)), value_(&value) {
  if (!value.is_object()) throw InputError(where_, "must be an object, is " + describe(value));
}

void JsonObject::refuse(const char* key, const std::string& reason) const {
  throw InputError(where_, std::string(key) + " " + reason);
}

const json* JsonObject::find(const char* key) const {
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const json& JsonObject::value(const char* key) const {
  const json* const found = find(key);
  if (found == nullptr) refuse(key, "is missing");
  return *found;
}

std::int64_t JsonObject::integer(const char* key) const {
  const json& found = value(key);
  if (!found.is_number_integer()) refuse(key, "must be an integer, is " + describe(found));
  if (found.is_number_unsigned() && found.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    refuse(key, "is too large: " + describe(found));
  }
  return found.get<std::int64_t>();
}

std::int64_t JsonObject::integer_or(const char* key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double JsonObject::number(const char* key) const {
  const json& found = value(key);
  if (!found.is_number() || !std::isfinite(found.get<double>())) {
    refuse(key, "must be a number, is " + describe(found));
  }
  return found.get<double>();
}

double JsonObject::number_or(const char* key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool JsonObject::boolean_or(const char* key, bool otherwise) const {
  const json* const found = find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(key, "must be true or false, is " + describe(*found));
  return found->get<bool>();
}

std::string JsonObject::text(const char* key) const {
  const json& found = value(key);
  if (!found.is_string()) refuse(key, "must be a text, is " + describe(found));
  return found.get<std::string>();
}

std::string JsonObject::text_or(const char* key, std::string otherwise) const {
  return has(key) ? text(key) : std::move(otherwise);
}

std::vector<std::string> JsonObject::texts(const char* key) const {
  const json& found = value(key);
  std::vector<std::string> list;
  if (!found.is_array()) refuse(key, "must be a list of texts, is " + describe(found));
  for (const json& item : found) {
    if (!item.is_string()) refuse(key, "must be a list of texts, holds " + describe(item));
    list.push_back(item.get<std::string>());
  }
  return list;
}

JsonObject JsonObject::object(const char* key) const {
  return {where_ + ": " + key, value(key)};
}

}  // namespace zerolock
