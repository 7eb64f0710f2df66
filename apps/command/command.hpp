#pragma once
/// What every subcommand of `zerolock` offers.

#include <memory>

#include "apps/command/option_table.hpp"

namespace zerolock {

/// Exit statuses of the process.
inline constexpr int status_done = 0;
inline constexpr int status_failed = 1;
inline constexpr int status_bad_input = 2;
inline constexpr int status_interrupted = 130;

/// One subcommand: first declares its flags, then runs once with the values they were given.
class Command {
 public:
  virtual ~Command() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  [[nodiscard]] virtual const char* summary() const = 0;
  /// A command line that works, for --help.
  [[nodiscard]] virtual const char* example() const = 0;

  virtual void declare(OptionTable& table) = 0;
  /// Returns the exit status. Throws InputError (2) or anything else (1); both end as one line on stderr.
  virtual int run(OptionTable& table) = 0;
};

std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_coordinator_command();
std::unique_ptr<Command> make_executor_command();
std::unique_ptr<Command> make_status_command();
std::unique_ptr<Command> make_inject_command();
std::unique_ptr<Command> make_chaos_command();
std::unique_ptr<Command> make_evaluate_command();
std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_inspect_command();
std::unique_ptr<Command> make_certs_command();
std::unique_ptr<Command> make_simulate_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_bench_overhead_command();
std::unique_ptr<Command> make_bench_throughput_command();
std::unique_ptr<Command> make_bench_memory_command();
std::unique_ptr<Command> make_bench_learning_command();
std::unique_ptr<Command> make_bench_theory_command();
std::unique_ptr<Command> make_bench_links_command();
std::unique_ptr<Command> make_bench_stages_command();
std::unique_ptr<Command> make_bench_device_command();
std::unique_ptr<Command> make_bench_recovery_command();
std::unique_ptr<Command> make_bench_replay_command();

}  // namespace zerolock
