#include "apps/command/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command/command.hpp"
#include "apps/command/leftovers.hpp"
#include "apps/command/nearest_name.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

/// What a command does at Ctrl-C: those with a state to save see to it themselves.
enum class OnInterrupt { ends, sees_to_it };

/// A subcommand with the CLI11 command that reads it.
struct BoundCommand {
  std::unique_ptr<Command> command;
  CLI::App* app = nullptr;
  std::unique_ptr<OptionTable> table;
  std::string full_name;  // "bench overhead"
  OnInterrupt on_interrupt = OnInterrupt::ends;
};

class CommandLine {
 public:
  CommandLine()
      : root_("Fine-tunes a large language model in stages that never wait for each other's gradients.") {
    root_.name("zerolock");
    root_.allow_extras();
    root_.require_subcommand(0, 1);
    root_.footer("Every command has --help with an example.");
    bind(root_, "", make_train_command(), OnInterrupt::sees_to_it);
    bind(root_, "", make_coordinator_command(), OnInterrupt::sees_to_it);
    bind(root_, "", make_executor_command(), OnInterrupt::sees_to_it);
    bind(root_, "", make_status_command(), OnInterrupt::sees_to_it);
    bind(root_, "", make_inject_command());
    bind(root_, "", make_chaos_command());
    bind(root_, "", make_evaluate_command());
    bind(root_, "", make_generate_command());
    bind(root_, "", make_inspect_command());
    bind(root_, "", make_plan_command());
    bind(root_, "", make_report_command());
    bind(root_, "", make_export_command());
    bind(root_, "", make_certs_command());
    bind(root_, "", make_simulate_command());
    bench_ = root_.add_subcommand("bench",
                                  "measure this machine and what training learns: overhead, throughput, "
                                  "memory, learning, theory, links, stages, device, recovery, replay");
    bench_->allow_extras();
    bench_->require_subcommand(0, 1);
    bind(*bench_, "bench ", make_bench_overhead_command());
    bind(*bench_, "bench ", make_bench_throughput_command());
    bind(*bench_, "bench ", make_bench_memory_command());
    bind(*bench_, "bench ", make_bench_learning_command(), OnInterrupt::sees_to_it);
    bind(*bench_, "bench ", make_bench_theory_command());
    bind(*bench_, "bench ", make_bench_links_command());
    bind(*bench_, "bench ", make_bench_stages_command());
    bind(*bench_, "bench ", make_bench_device_command());
    bind(*bench_, "bench ", make_bench_recovery_command());
    bind(*bench_, "bench ", make_bench_replay_command());
  }

  int run(int argc, const char* const* argv) {
    try {
      root_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      std::fputs(root_.help().c_str(), stdout);
      return status_done;
    } catch (const CLI::ParseError& error) {
      throw InputError(error.what());
    }
    if (bench_->parsed() && bench_->get_subcommands().empty()) refuse_command(*bench_, "bench ");
    if (root_.get_subcommands().empty()) refuse_command(root_, "");
    for (BoundCommand& bound : commands_) {
      if (!bound.app->parsed()) continue;
      refuse_extras(bound);
      std::optional<EndOnInterrupt> interrupts;
      if (bound.on_interrupt == OnInterrupt::ends) interrupts.emplace();
      return bound.command->run(*bound.table);
    }
    throw InputError("zerolock", "no command given");
  }

 private:
  void bind(CLI::App& parent, const std::string& prefix, std::unique_ptr<Command> command,
            OnInterrupt on_interrupt = OnInterrupt::ends) {
    CLI::App* app = parent.add_subcommand(command->name(), command->summary());
    app->allow_extras();
    app->footer(std::string("Example:\n  ") + command->example());
    auto table = std::make_unique<OptionTable>(*app);
    command->declare(*table);
    const std::string full_name = prefix + command->name();
    commands_.push_back({std::move(command), app, std::move(table), full_name, on_interrupt});
  }

  /// No subcommand was recognised: says which there are.
  [[noreturn]] static void refuse_command(const CLI::App& app, const std::string& prefix) {
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(sub->get_name());
    }
    const std::string list = "commands: " + joined(names);
    const std::vector<std::string> extras = app.remaining();
    if (extras.empty()) throw InputError("no command given; " + list);
    const std::string& word = extras.front();
    throw InputError(prefix + word, "no such command" + suggestion(word, names, "") + "; " + list);
  }

  /// Something was left over: a mistyped flag, a flag of another command, or a stray word.
  void refuse_extras(const BoundCommand& bound) const {
    const std::vector<std::string> extras = bound.app->remaining();
    if (extras.empty()) return;
    std::string word = extras.front();
    if (word.rfind("--", 0) != 0) throw InputError(bound.full_name, "unexpected argument '" + word + "'");
    word = word.substr(2, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
    for (const BoundCommand& other : commands_) {
      for (const std::string& name : other.table->names()) {
        if (name == word) {
          throw InputError("--" + word, "is a flag of zerolock " + other.full_name + ", not of zerolock " +
                                            bound.full_name + suggestion(word, bound.table->names(), "--"));
        }
      }
    }
    throw InputError("--" + word, "unknown flag of zerolock " + bound.full_name +
                                      suggestion(word, bound.table->names(), "--"));
  }

  CLI::App root_;
  CLI::App* bench_ = nullptr;
  std::vector<BoundCommand> commands_;
};

/// A message in one line, whatever it holds.
void print_error(std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "zerolock: %s\n", message.c_str());
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  try {
    CommandLine command_line;
    return command_line.run(argc, argv);
  } catch (const InputError& error) {
    print_error(error.what());
    return status_bad_input;
  } catch (const std::exception& error) {
    print_error(error.what());
    return status_failed;
  }
}

}  // namespace zerolock
