/// zerolock inject: lets a fault happen in a running cluster.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/reach_options.hpp"
#include "supervision/fault_orders.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

class InjectCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "inject"; }
  [[nodiscard]] const char* summary() const override { return "let a fault happen in a running cluster"; }
  [[nodiscard]] const char* example() const override {
    return "zerolock inject sigkill --stage 1 --at window=5,micro_batch=2,phase=backward "
           "--coordinator 127.0.0.1:7400 --token SECRET";
  }

  void declare(OptionTable& table) override {
    table.positional("KIND", kind_,
                     "throw, kill, hang, sigkill, sigstop, drop-link, corrupt-frame, corrupt-checkpoint or "
                     "disk-full; release, to let what hangs go on");
    table.integer("stage", stage_, 0, 1'000'000, "the stage where it happens");
    table.text("at", at_,
               "where in it: window=N,micro_batch=N,phase=POINT; without a window in the next one, without a "
               "phase behind a backward");
    table.integer("times", times_, 1, 1'000'000, "that it happens; of disk-full: writes that fail");
    table.real("seconds", seconds_, {0.001, 86'400, false}, "of hang and sigstop");
    reach_.declare(table);
    log_.declare(table);
  }

  int run(OptionTable& table) override {
    start_log(log_);
    if (!kind_) throw InputError("KIND", "is required; see zerolock inject --help");
    if (!stage_) throw InputError("--stage", "is required: the stage where it happens");
    Fault fault = parse_fault("throw " + at_, "--at");
    fault.kind = parse_fault_kind(kind_->string(), "KIND");
    fault.stage = StageIndex{*stage_};
    if (table.given("times")) fault.times = times_;
    if (seconds_) fault.length = parse_fault_seconds(*seconds_, "--seconds");
    order_fault(reach_.dial("inject"), fault);
    std::printf("ordered: %s\n", to_string(fault).c_str());
    return status_done;
  }

 private:
  std::optional<std::filesystem::path> kind_;
  std::optional<std::uint64_t> stage_;
  std::string at_;
  std::uint64_t times_ = 1;
  std::optional<double> seconds_;
  ReachOptions reach_;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_inject_command() {
  return std::make_unique<InjectCommand>();
}

}  // namespace zerolock
