#pragma once
/// The flags of one subcommand, each of which may also stand in a TOML file; flags win over the file.

#include <CLI/App.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zerolock {

/// What --model takes, wherever it is needed.
inline constexpr const char* model_help =
    "Hugging Face folder, GGUF file, or random:NAME or random:CONFIG.json for random weights of that shape";

/// The real numbers that an option takes.
struct RealRange {
  double least = 0;
  double most = 0;
  bool least_excluded = false;
};

/// Declares options on a CLI11 command and remembers how each is read from a TOML file and written back.
/// Targets must outlive the table; they hold the defaults until a value is given. Every bad value throws
/// InputError, one line that names the flag or file and key, and what is allowed.
class OptionTable {
 public:
  /// Where options are not written to a resolved configuration: they say what to do now, not what the run is.
  enum class Kept { in_configuration, on_command_line_only };

  explicit OptionTable(CLI::App& command) : command_(&command) {}

  void text(const std::string& name, std::string& target, const std::string& help,
            Kept kept = Kept::in_configuration);
  void path(const std::string& name, std::optional<std::filesystem::path>& target, const std::string& help,
            Kept kept = Kept::in_configuration);
  /// A path, or the name of a random model (random_model.hpp), which stays a name.
  void model(const std::string& name, std::optional<std::filesystem::path>& target, const std::string& help);
  void integer(const std::string& name, std::uint64_t& target, std::uint64_t least, std::uint64_t most,
               const std::string& help);
  void integer(const std::string& name, std::optional<std::uint64_t>& target, std::uint64_t least,
               std::uint64_t most, const std::string& help);
  void real(const std::string& name, double& target, RealRange range, const std::string& help);
  void real(const std::string& name, std::optional<double>& target, RealRange range, const std::string& help);
  void flag(const std::string& name, bool& target, const std::string& help,
            Kept kept = Kept::in_configuration);
  /// Values divided by commas on the command line, an array in the file.
  void list(const std::string& name, std::vector<std::string>& target, const std::string& help);
  void integers(const std::string& name, std::vector<std::uint64_t>& target, std::uint64_t least,
                std::uint64_t most, const std::string& help);

  template <class Enum>
  void choice(const std::string& name, Enum& target, const std::vector<std::pair<std::string, Enum>>& values,
              const std::string& help) {
    std::vector<std::string> names;
    for (const auto& value : values) names.push_back(value.first);
    named_choice(
        name, names, [&target, values](std::size_t index) { target = values[index].second; },
        [&target, values]() {
          std::size_t index = 0;
          while (values[index].second != target) ++index;
          return index;
        },
        help);
  }

  /// A value with a syntax of its own: `parse` throws InputError that begins with `where`; `text` gives it
  /// back.
  void parsed(const std::string& name,
              const std::function<void(const std::string& value, const std::string& where)>& parse,
              const std::function<std::string()>& text, const std::string& value_name,
              const std::string& help);

  /// A word without a flag, on the command line only.
  void positional(const std::string& name, std::optional<std::filesystem::path>& target,
                  const std::string& help);

  /// Two options that say the same thing in two ways. Given both on the command line or both in a file is an
  /// error; one on the command line makes the file's other one void.
  void alternatives(const std::string& first, const std::string& second);

  /// A flag of a later version: giving it is an error that says what is there instead. `takes_value` as it
  /// will.
  void later(const std::string& name, bool takes_value, const std::string& what_is_there);

  /// Takes from the file what the command line did not give. Throws InputError with file and line: not TOML,
  /// unknown keys, values of the wrong kind or out of range.
  void read(const std::filesystem::path& config);
  /// The values in force as TOML, one key a line in the order of declaration; paths are made absolute.
  /// Reading it again gives the same values.
  [[nodiscard]] std::string to_toml() const;
  /// Throws InputError if both of two alternatives were given. Call after everything was read.
  void check_alternatives() const;

  /// True if the command line or a file gave the option.
  [[nodiscard]] bool given(const std::string& name) const;
  /// Names without dashes, in the order of declaration.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  enum class ValueKind { text, integer, real, boolean, list };
  struct Entry {
    std::string name;
    ValueKind kind = ValueKind::text;
    Kept kept = Kept::in_configuration;
    bool later = false;
    bool given = false;
    /// Takes the value (a list: its items) or throws InputError that begins with `where`.
    std::function<void(const std::vector<std::string>& values, const std::string& where)> set;
    /// The value in force as TOML; nothing where there is none.
    std::function<std::optional<std::string>()> toml;
  };

  Entry& declare(Entry entry, const std::string& value_name, const std::string& help);
  Entry* find(const std::string& name);
  void named_choice(const std::string& name, const std::vector<std::string>& names,
                    std::function<void(std::size_t)> set, std::function<std::size_t()> get,
                    const std::string& help);

  CLI::App* command_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::vector<std::pair<std::string, std::string>> alternatives_;
};

/// Reads a number strictly: the whole text, in range, finite. Throws InputError "WHERE: ..." with the allowed
/// range.
std::uint64_t parse_integer(const std::string& text, std::uint64_t least, std::uint64_t most,
                            const std::string& where);
double parse_real(const std::string& text, RealRange range, const std::string& where);

/// "A, B, C"
std::string joined(const std::vector<std::string>& items, std::string_view separator = ", ");
/// Pieces between commas, blanks around them removed. An empty text has no pieces.
std::vector<std::string> split_list(const std::string& text);
/// A TOML basic string with what must be escaped escaped.
std::string toml_string(const std::string& text);
/// The shortest text that reads back as the same number.
std::string number_text(double value);

}  // namespace zerolock
