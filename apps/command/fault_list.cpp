#include "apps/command/fault_list.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "apps/command/nearest_name.hpp"
#include "apps/command/option_table.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

const std::vector<std::string> keys_of_text{"kind", "at"};

std::string line_of(const std::string& file, const toml::source_region& source) {
  return file + " line " + std::to_string(source.begin.line);
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys{"kind"};
  for (const std::string& key : fault_keys()) {
    if (key != "phase") keys.push_back(key);
  }
  return keys;
}

/// A value as the text that fault_plan.hpp reads.
std::string value_text(const toml::node& node, const std::string& key, const std::string& where) {
  const bool wants_text = std::count(keys_of_text.begin(), keys_of_text.end(), key) > 0;
  if (wants_text && node.is_string()) return *node.value<std::string>();
  if (!wants_text && node.is_integer()) return std::to_string(*node.value<std::int64_t>());
  if (key == "seconds" && node.is_floating_point()) return number_text(*node.value<double>());
  throw InputError(where + ": " + key, wants_text         ? "must be a string"
                                       : key == "seconds" ? "must be a number"
                                                          : "must be a whole number");
}

Fault read_fault(const toml::table& table, const std::string& file, std::uint64_t stages) {
  const std::string where = line_of(file, table.source());
  const std::vector<std::string> allowed = known_keys();
  for (const char* required : {"kind", "stage", "at"}) {
    if (table.get(required) == nullptr) throw InputError(where, "a fault needs " + std::string(required));
  }
  Fault fault;
  for (const auto& [toml_key, node] : table) {
    const std::string key(toml_key.str());
    const std::string place = line_of(file, toml_key.source());
    if (std::count(allowed.begin(), allowed.end(), key) == 0) {
      throw InputError(place + ": " + key, "unknown key" + suggestion(key, allowed, ""));
    }
    const std::string value = value_text(node, key, place);
    if (key == "kind") {
      fault.kind = parse_fault_kind(value, place + ": kind");
      if (fault.kind == FaultKind::release) {
        throw InputError(place + ": kind",
                         "'release' is ordered while a run goes on: zerolock inject release");
      }
    } else {
      set_fault_key(fault, key, value, place);
    }
    if (key == "stage" && fault.stage.value >= stages) {
      throw InputError(place + ": stage",
                       "'" + value + "' is not there; the run has " + std::to_string(stages) + " stages");
    }
  }
  return fault;
}

}  // namespace

std::vector<Fault> read_faults(const std::filesystem::path& path, std::uint64_t stages) {
  const std::string file = path.string();
  toml::table top;
  try {
    top = toml::parse(read_text_file(path), file);
  } catch (const toml::parse_error& error) {
    throw InputError(line_of(file, error.source()), "not TOML: " + std::string(error.description()));
  }
  for (const auto& [key, node] : top) {
    if (key.str() != "fault") {
      throw InputError(line_of(file, key.source()) + ": " + std::string(key.str()),
                       "unknown key; a fault file has [[fault]] tables");
    }
  }
  const toml::array* tables = top["fault"].as_array();
  if (tables == nullptr) throw InputError(file, "has no [[fault]]");
  std::vector<Fault> faults;
  for (const toml::node& node : *tables) {
    const toml::table* table = node.as_table();
    if (table == nullptr) throw InputError(line_of(file, node.source()), "must be a [[fault]] table");
    faults.push_back(read_fault(*table, file, stages));
  }
  return faults;
}

std::string fault_file_text(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    text += "[[fault]]\nkind = " + toml_string(std::string(to_string(fault.kind))) + "\n";
    text += "stage = " + std::to_string(fault.stage.value) + "\n";
    text += "at = " + toml_string(std::string(to_string(fault.point))) + "\n";
    if (fault.window) text += "window = " + std::to_string(fault.window->value) + "\n";
    if (fault.micro_batch) text += "micro_batch = " + std::to_string(*fault.micro_batch) + "\n";
    if (fault.times != 1) text += "times = " + std::to_string(fault.times) + "\n";
    if (fault.length.count() != 0) {
      text += "seconds = " + number_text(static_cast<double>(fault.length.count()) / 1000) + "\n";
    }
    text += "\n";
  }
  return text;
}

}  // namespace zerolock
