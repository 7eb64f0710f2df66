/// zerolock inspect: shows what a file or folder holds and whether its checksums are good.

#include <cstdio>

#include "apps/command/command.hpp"
#include "apps/command/inspection.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/random_model.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

/// One indented line for each fact.
void print_facts(const nlohmann::ordered_json& facts, const std::string& indent) {
  for (const auto& [name, value] : facts.items()) {
    if (name == "problems") continue;
    const bool nested = value.is_object() && !value.empty();
    const bool rows = value.is_array() && !value.empty() && value.front().is_object();
    if (nested) {
      std::printf("%s%s:\n", indent.c_str(), name.c_str());
      print_facts(value, indent + "  ");
    } else if (rows) {
      std::printf("%s%s:\n", indent.c_str(), name.c_str());
      for (const auto& row : value) std::printf("%s  %s\n", indent.c_str(), row.dump().c_str());
    } else {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      std::printf("%s%s: %s\n", indent.c_str(), name.c_str(), text.c_str());
    }
  }
}

class InspectCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "inspect"; }
  [[nodiscard]] const char* summary() const override {
    return "what a model, adapter, checkpoint or run folder holds, and whether it is good";
  }
  [[nodiscard]] const char* example() const override { return "zerolock inspect runs/topics"; }

  void declare(OptionTable& table) override {
    table.positional(
        "FILE", path_,
        "model folder, GGUF or safetensors file, random:NAME, adapter, checkpoint or run folder");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    start_log(log_);
    if (!path_) throw InputError("inspect", "needs a FILE: a model, adapter, checkpoint or run folder");
    const Inspection inspection = inspect_path(model_location(*path_));
    if (json_) {
      std::printf("%s\n", inspection.facts.dump().c_str());
    } else {
      print_facts(inspection.facts, "");
    }
    for (const std::string& problem : inspection.problems) std::fprintf(stderr, "bad: %s\n", problem.c_str());
    return inspection.problems.empty() ? status_done : status_failed;
  }

 private:
  std::optional<std::filesystem::path> path_;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() {
  return std::make_unique<InspectCommand>();
}

}  // namespace zerolock
