#pragma once
/// Members of a JSON object that may be absent, or are lists, or name a choice; on top of JsonObject's own.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensors/files/json_object.hpp"

namespace zerolock {

/// Throws InputError if the member is missing or not a list.
inline const nlohmann::json& list_member(const JsonObject& object, const char* key) {
  const nlohmann::json& value = object.value(key);
  if (!value.is_array()) object.refuse(key, "must be a list, is " + describe(value));
  return value;
}

/// Nothing for a missing member; each throws InputError for one of another type.
inline std::optional<std::string> optional_text(const JsonObject& object, const char* key) {
  return object.has(key) ? std::optional(object.text(key)) : std::nullopt;
}
inline std::optional<bool> optional_boolean(const JsonObject& object, const char* key) {
  return object.has(key) ? std::optional(object.boolean_or(key, false)) : std::nullopt;
}
inline std::optional<JsonObject> optional_object(const JsonObject& object, const char* key) {
  return object.has(key) ? std::optional(object.object(key)) : std::nullopt;
}

/// Where the items of a list stand, for JsonObjects made of them.
inline std::string place_of(const JsonObject& object, const char* key) {
  return object.where() + ": " + key;
}

}  // namespace zerolock
