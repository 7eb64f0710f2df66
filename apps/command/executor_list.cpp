#include "apps/command/executor_list.hpp"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "apps/command/nearest_name.hpp"
#include "apps/command/option_table.hpp"
#include "apps/command/quantity.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::int64_t cores_max = 4096;
constexpr double gflops_max = 1e9;
const std::vector<std::string> executor_keys{"name", "memory", "cores", "threads", "gflops", "link"};

/// One [[executor]] and where its keys stand.
class ExecutorTable {
 public:
  ExecutorTable(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(executor_keys.begin(), executor_keys.end(), name) == executor_keys.end()) {
        throw InputError(place(key.source()) + ": " + name,
                         "unknown key" + suggestion(name, executor_keys, ""));
      }
    }
  }

  /// `operations_per_second`: of one core, if the file does not say it.
  [[nodiscard]] PlanningExecutor executor(double operations_per_second) const {
    PlanningExecutor made;
    const auto name = text("name");
    if (!name || name->empty()) throw InputError(place(table_.source()), "an executor needs a name");
    made.name = *name;
    if (const auto memory = text("memory")) made.memory_bytes = parse_bytes(*memory, where("memory"));
    if (const auto link = text("link")) {
      made.link_bytes_per_second = parse_bytes_per_second(*link, where("link"));
    }
    made.stages_at_once = count("cores", cores_max) / threads();
    double rate = operations_per_second;
    if (const toml::node* node = table_.get("gflops")) {
      const auto gflops = node->is_number() ? node->value<double>() : std::nullopt;
      if (!gflops || !(*gflops > 0) || *gflops > gflops_max) {
        throw InputError(where("gflops"), "must be a number above 0 and at most " + number_text(gflops_max));
      }
      rate = *gflops * 1e9;
    }
    made.operations_per_second = rate * static_cast<double>(threads());
    return made;
  }

  [[nodiscard]] bool states_rate() const { return table_.contains("gflops"); }

  /// Of each stage.
  [[nodiscard]] std::uint64_t threads() const {
    return count("threads", static_cast<std::int64_t>(count("cores", cores_max)));
  }

  [[nodiscard]] std::string where(const char* key) const {
    const toml::node* node = table_.get(key);
    return place(node != nullptr ? node->source() : table_.source()) + ": " + key;
  }

 private:
  /// A whole number from 1 to `most`; 1 if the file does not say it.
  [[nodiscard]] std::uint64_t count(const char* key, std::int64_t most) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return 1;
    const auto number = node->is_integer() ? node->value<std::int64_t>() : std::nullopt;
    if (!number || *number < 1 || *number > most) {
      throw InputError(where(key), "must be a whole number from 1 to " + std::to_string(most));
    }
    return static_cast<std::uint64_t>(*number);
  }
  [[nodiscard]] std::string place(const toml::source_region& source) const {
    return file_ + " line " + std::to_string(source.begin.line);
  }
  [[nodiscard]] std::optional<std::string> text(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    auto value = node->is_string() ? node->value<std::string>() : std::nullopt;
    if (!value) throw InputError(where(key), "must be a string");
    return value;
  }

  const toml::table& table_;
  std::string file_;
};

toml::table parsed(const std::filesystem::path& file) {
  try {
    return toml::parse(read_text_file(file), file.string());
  } catch (const toml::parse_error& error) {
    throw InputError(file.string() + " line " + std::to_string(error.source().begin.line),
                     "not TOML: " + std::string(error.description()));
  }
}

}  // namespace

std::vector<PlanningExecutor> read_executors(const std::filesystem::path& file,
                                             double operations_per_second) {
  const toml::table top = parsed(file);
  for (const auto& [key, node] : top) {
    if (key.str() == "executor" && node.is_array_of_tables()) continue;
    throw InputError(file.string() + " line " + std::to_string(key.source().begin.line),
                     "'" + std::string(key.str()) + "' is not an [[executor]] table");
  }
  std::vector<PlanningExecutor> executors;
  std::size_t with_rate = 0;
  const toml::array* tables = top["executor"].as_array();
  if (tables == nullptr) throw InputError(file.string(), "has no [[executor]]");
  for (const toml::node& node : *tables) {
    const ExecutorTable table(*node.as_table(), file.string());
    PlanningExecutor executor = table.executor(operations_per_second);
    for (const PlanningExecutor& other : executors) {
      if (other.name == executor.name) {
        throw InputError(table.where("name"), "two executors are called '" + executor.name + "'");
      }
    }
    if (table.states_rate()) ++with_rate;
    executors.push_back(std::move(executor));
  }
  if (with_rate > 0 && with_rate < executors.size()) {
    throw InputError(file.string(), "gflops: give it for all executors or for none");
  }
  return executors;
}

PlanningExecutor this_machine(double operations_per_second) {
  PlanningExecutor machine;
  machine.name = "this machine";
  machine.stages_at_once = std::max(1U, std::thread::hardware_concurrency());
  machine.operations_per_second = operations_per_second;
  const auto pages = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES));
  machine.memory_bytes = std::max<std::int64_t>(pages, 0) * ::sysconf(_SC_PAGE_SIZE);
  return machine;
}

}  // namespace zerolock
