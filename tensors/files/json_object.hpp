#pragma once
/// JSON read from files that users bring: every complaint names the file and the key.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

/// Parses a JSON object. Throws InputError (naming `where`) if the text is not one, or if a key stands twice
/// in one object, because readers would disagree about it.
nlohmann::json parse_json_object(const std::string& where, std::string_view text);

/// The same for a file. Throws InputError if it cannot be read.
nlohmann::json read_json_object(const std::filesystem::path& file);

/// A short name for a value in a message: the value itself if it is a number, text or boolean, else its kind.
std::string describe(const nlohmann::json& value);

/// Typed access to the members of an object that outlives it. A member that is null counts as missing. Every
/// function throws InputError "WHERE: KEY ..." when a value is of another type, or missing where there is no
/// other value for it.
class JsonObject {
 public:
  /// Throws InputError if `value` is not an object.
  JsonObject(std::string where, const nlohmann::json& value);

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }
  /// The member, or nullptr.
  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  [[nodiscard]] const nlohmann::json& value(const char* key) const;

  [[nodiscard]] std::int64_t integer(const char* key) const;
  [[nodiscard]] std::int64_t integer_or(const char* key, std::int64_t otherwise) const;
  /// Any finite number.
  [[nodiscard]] double number(const char* key) const;
  [[nodiscard]] double number_or(const char* key, double otherwise) const;
  [[nodiscard]] bool boolean_or(const char* key, bool otherwise) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::string text_or(const char* key, std::string otherwise) const;
  [[nodiscard]] std::vector<std::string> texts(const char* key) const;
  /// A member that is an object; its complaints name both keys.
  [[nodiscard]] JsonObject object(const char* key) const;

  /// Throws the complaint about a key.
  [[noreturn]] void refuse(const char* key, const std::string& reason) const;

 private:
  std::string where_;
  const nlohmann::json* value_;
};

}  // namespace zerolock
