#include "apps/command/option_table.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <system_error>

#include "apps/command/nearest_name.hpp"
#include "apps/command/random_model.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

std::string range_text(const RealRange& range) {
  return (range.least_excluded ? "above " + number_text(range.least) + " and at most "
                               : "from " + number_text(range.least) + " to ") +
         number_text(range.most);
}

std::string shown(const std::string& text) {
  return "'" + text + "'";
}

/// A TOML value of a flat file as text (an array: its items), or nothing for what no option takes.
std::optional<std::vector<std::string>> node_texts(const toml::node& node) {
  if (const auto* text = node.as_string()) return std::vector<std::string>{text->get()};
  if (const auto* integer = node.as_integer())
    return std::vector<std::string>{std::to_string(integer->get())};
  if (const auto* real = node.as_floating_point()) return std::vector<std::string>{number_text(real->get())};
  if (const auto* boolean = node.as_boolean())
    return std::vector<std::string>{boolean->get() ? "true" : "false"};
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> items;
  for (const toml::node& item : *array) {
    const auto texts = node_texts(item);
    if (!texts || item.is_array()) return std::nullopt;
    items.push_back(texts->front());
  }
  return items;
}

}  // namespace

// -- Numbers and lists
// ----------------------------------------------------------------------------------------------

std::uint64_t parse_integer(const std::string& text, std::uint64_t least, std::uint64_t most,
                            const std::string& where) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!whole || value < least || value > most) {
    throw InputError(where, shown(text) + " is not a whole number from " + std::to_string(least) + " to " +
                                std::to_string(most));
  }
  return value;
}

double parse_real(const std::string& text, RealRange range, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  const bool above = range.least_excluded ? value > range.least : value >= range.least;
  if (!whole || !std::isfinite(value) || !above || value > range.most) {
    throw InputError(where, shown(text) + " is not a number " + range_text(range));
  }
  return value;
}

std::string joined(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    const auto first = item.find_first_not_of(" \t");
    const auto last = item.find_last_not_of(" \t");
    items.push_back(first == std::string::npos ? "" : item.substr(first, last - first + 1));
  }
  return items;
}

std::string toml_string(const std::string& text) {
  std::ostringstream stream;
  stream << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      stream << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      stream << code;
    } else {
      stream << c;
    }
  }
  stream << '"';
  return stream.str();
}

std::string number_text(double value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

// -- Declaring options
// ----------------------------------------------------------------------------------------------

OptionTable::Entry& OptionTable::declare(Entry entry, const std::string& value_name,
                                         const std::string& help) {
  auto shared = std::make_shared<Entry>(std::move(entry));
  entries_.push_back(shared);
  const std::string flag_name = "--" + shared->name;
  if (shared->kind == ValueKind::boolean) {
    command_->add_flag_function(
        flag_name,
        [shared, flag_name](std::int64_t) {
          shared->given = true;
          shared->set({"true"}, flag_name);
        },
        help);
  } else {
    CLI::Option* option = command_->add_option_function<std::string>(
        flag_name,
        [shared, flag_name](const std::string& value) {
          shared->given = true;
          const bool list = shared->kind == ValueKind::list;
          shared->set(list ? split_list(value) : std::vector<std::string>{value}, flag_name);
        },
        help);
    option->type_name(value_name);
    const auto initial = shared->toml();
    if (initial) option->default_str(*initial);
  }
  return *shared;
}

void OptionTable::text(const std::string& name, std::string& target, const std::string& help, Kept kept) {
  declare({name, ValueKind::text, kept, false, false,
           [&target](const auto& values, const std::string&) { target = values.front(); },
           [&target]() { return target.empty() ? std::nullopt : std::optional(toml_string(target)); }},
          "TEXT", help);
}

namespace {

std::function<void(const std::vector<std::string>&, const std::string&)> path_setter(
    std::optional<std::filesystem::path>& target) {
  return [&target](const std::vector<std::string>& values, const std::string& where) {
    if (values.front().empty()) throw InputError(where, "the path is empty");
    target = values.front();
  };
}

}  // namespace

void OptionTable::path(const std::string& name, std::optional<std::filesystem::path>& target,
                       const std::string& help, Kept kept) {
  const auto toml = [&target]() -> std::optional<std::string> {
    if (!target) return std::nullopt;
    return toml_string(std::filesystem::absolute(*target).lexically_normal().string());
  };
  declare({name, ValueKind::text, kept, false, false, path_setter(target), toml}, "PATH", help);
}

void OptionTable::model(const std::string& name, std::optional<std::filesystem::path>& target,
                        const std::string& help) {
  const auto toml = [&target]() -> std::optional<std::string> {
    if (!target) return std::nullopt;
    return toml_string(absolute_model_text(*target));
  };
  declare({name, ValueKind::text, Kept::in_configuration, false, false, path_setter(target), toml}, "MODEL",
          help);
}

void OptionTable::integer(const std::string& name, std::uint64_t& target, std::uint64_t least,
                          std::uint64_t most, const std::string& help) {
  const auto set = [&target, least, most](const std::vector<std::string>& values, const std::string& where) {
    target = parse_integer(values.front(), least, most, where);
  };
  declare({name, ValueKind::integer, Kept::in_configuration, false, false, set,
           [&target]() { return std::optional(std::to_string(target)); }},
          "N", help);
}

void OptionTable::integer(const std::string& name, std::optional<std::uint64_t>& target, std::uint64_t least,
                          std::uint64_t most, const std::string& help) {
  const auto set = [&target, least, most](const std::vector<std::string>& values, const std::string& where) {
    target = parse_integer(values.front(), least, most, where);
  };
  const auto toml = [&target]() {
    return target ? std::optional(std::to_string(*target)) : std::optional<std::string>();
  };
  declare({name, ValueKind::integer, Kept::in_configuration, false, false, set, toml}, "N", help);
}

void OptionTable::real(const std::string& name, double& target, RealRange range, const std::string& help) {
  const auto set = [&target, range](const std::vector<std::string>& values, const std::string& where) {
    target = parse_real(values.front(), range, where);
  };
  declare({name, ValueKind::real, Kept::in_configuration, false, false, set,
           [&target]() { return std::optional(number_text(target)); }},
          "X", help);
}

void OptionTable::real(const std::string& name, std::optional<double>& target, RealRange range,
                       const std::string& help) {
  const auto set = [&target, range](const std::vector<std::string>& values, const std::string& where) {
    target = parse_real(values.front(), range, where);
  };
  const auto toml = [&target]() {
    return target ? std::optional(number_text(*target)) : std::optional<std::string>();
  };
  declare({name, ValueKind::real, Kept::in_configuration, false, false, set, toml}, "X", help);
}

void OptionTable::flag(const std::string& name, bool& target, const std::string& help, Kept kept) {
  const auto set = [&target](const std::vector<std::string>& values, const std::string&) {
    target = values.front() == "true";
  };
  declare({name, ValueKind::boolean, kept, false, false, set,
           [&target]() { return std::optional<std::string>(target ? "true" : "false"); }},
          "", help);
}

void OptionTable::list(const std::string& name, std::vector<std::string>& target, const std::string& help) {
  const auto set = [&target](const std::vector<std::string>& values, const std::string& where) {
    for (const std::string& value : values) {
      if (value.empty()) throw InputError(where, "an item of the list is empty");
    }
    target = values;
  };
  const auto toml = [&target]() -> std::optional<std::string> {
    if (target.empty()) return std::nullopt;
    std::vector<std::string> quoted;
    for (const std::string& item : target) quoted.push_back(toml_string(item));
    return "[" + joined(quoted) + "]";
  };
  declare({name, ValueKind::list, Kept::in_configuration, false, false, set, toml}, "A,B,...", help);
}

void OptionTable::integers(const std::string& name, std::vector<std::uint64_t>& target, std::uint64_t least,
                           std::uint64_t most, const std::string& help) {
  const auto set = [&target, least, most](const std::vector<std::string>& values, const std::string& where) {
    target.clear();
    for (const std::string& value : values) target.push_back(parse_integer(value, least, most, where));
  };
  const auto toml = [&target]() -> std::optional<std::string> {
    if (target.empty()) return std::nullopt;
    std::vector<std::string> numbers;
    for (const std::uint64_t number : target) numbers.push_back(std::to_string(number));
    return "[" + joined(numbers) + "]";
  };
  declare({name, ValueKind::list, Kept::in_configuration, false, false, set, toml}, "N,N,...", help);
}

void OptionTable::named_choice(const std::string& name, const std::vector<std::string>& names,
                               std::function<void(std::size_t)> set, std::function<std::size_t()> get,
                               const std::string& help) {
  const auto set_text = [names, set](const std::vector<std::string>& values, const std::string& where) {
    for (std::size_t index = 0; index < names.size(); ++index) {
      if (names[index] == values.front()) return set(index);
    }
    throw InputError(where, shown(values.front()) + " is not supported; this version has: " + joined(names));
  };
  declare({name, ValueKind::text, Kept::in_configuration, false, false, set_text,
           [names, get]() { return std::optional(toml_string(names[get()])); }},
          joined(names, "|"), help);
}

void OptionTable::parsed(const std::string& name,
                         const std::function<void(const std::string& value, const std::string& where)>& parse,
                         const std::function<std::string()>& text, const std::string& value_name,
                         const std::string& help) {
  declare({name, ValueKind::text, Kept::in_configuration, false, false,
           [parse](const auto& values, const std::string& where) { parse(values.front(), where); },
           [text]() { return std::optional(toml_string(text())); }},
          value_name, help);
}

void OptionTable::positional(const std::string& name, std::optional<std::filesystem::path>& target,
                             const std::string& help) {
  command_
      ->add_option_function<std::string>(
          name, [&target](const std::string& value) { target = value; }, help)
      ->type_name("");  // its name says what it is
}

void OptionTable::alternatives(const std::string& first, const std::string& second) {
  alternatives_.emplace_back(first, second);
}

void OptionTable::check_alternatives() const {
  for (const auto& [first, second] : alternatives_) {
    if (given(first) && given(second))
      throw InputError("--" + first, "cannot be given together with --" + second);
  }
}

void OptionTable::later(const std::string& name, bool takes_value, const std::string& what_is_there) {
  const auto set = [what_is_there](const std::vector<std::string>&, const std::string& where) {
    throw InputError(where, "is not in this version; " + what_is_there);
  };
  const ValueKind kind = takes_value ? ValueKind::text : ValueKind::boolean;
  declare({name, kind, Kept::on_command_line_only, true, false, set, []() { return std::nullopt; }}, "", "");
  command_->get_option("--" + name)->group("");  // an empty group keeps it out of --help
}

// -- Configuration files
// --------------------------------------------------------------------------------------------

OptionTable::Entry* OptionTable::find(const std::string& name) {
  for (const auto& entry : entries_) {
    if (entry->name == name) return entry.get();
  }
  return nullptr;
}

void OptionTable::read(const std::filesystem::path& config) {
  const std::string file = config.string();
  toml::table table;
  try {
    table = toml::parse(read_text_file(config), file);
  } catch (const toml::parse_error& error) {
    throw InputError(file + " line " + std::to_string(error.source().begin.line),
                     "not TOML: " + std::string(error.description()));
  }
  std::vector<std::string> void_keys;
  for (const auto& [first, second] : alternatives_) {
    if (given(first)) void_keys.push_back(second);
    if (given(second)) void_keys.push_back(first);
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string where = file + " line " + std::to_string(key.source().begin.line) + ": " + name;
    Entry* entry = find(name);
    if (entry == nullptr || (entry->kept == Kept::on_command_line_only && !entry->later)) {
      throw InputError(where, "unknown key" + suggestion(name, names(), ""));
    }
    const auto texts = node_texts(node);
    const bool number = node.is_integer() || node.is_floating_point();
    const bool fits = texts && ((entry->kind == ValueKind::text && node.is_string()) ||
                                (entry->kind == ValueKind::integer && number) ||
                                (entry->kind == ValueKind::real && number) ||
                                (entry->kind == ValueKind::boolean && node.is_boolean()) ||
                                (entry->kind == ValueKind::list && node.is_array()));
    if (!fits && !entry->later) {
      static constexpr const char* kinds[] = {"a string", "a whole number", "a number", "true or false",
                                              "an array"};
      throw InputError(where, "must be " + std::string(kinds[static_cast<int>(entry->kind)]));
    }
    if (entry->given || std::count(void_keys.begin(), void_keys.end(), name) > 0) continue;
    entry->set(texts.value_or(std::vector<std::string>{}), where);
    entry->given = true;
  }
}

std::string OptionTable::to_toml() const {
  std::string text;
  for (const auto& entry : entries_) {
    if (entry->kept == Kept::on_command_line_only) continue;
    if (const auto value = entry->toml()) text += entry->name + " = " + *value + "\n";
  }
  return text;
}

bool OptionTable::given(const std::string& name) const {
  for (const auto& entry : entries_) {
    if (entry->name == name) return entry->given;
  }
  return false;
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    if (!entry->later) names.push_back(entry->name);
  }
  return names;
}

}  // namespace zerolock
