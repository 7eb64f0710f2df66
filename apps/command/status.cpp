/// zerolock status: how a coordinator's run is, once or again and again.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "apps/command/command.hpp"
#include "apps/command/interrupt_watch.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/reach_options.hpp"
#include "apps/command/status_text.hpp"
#include "supervision/status_client.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

class StatusCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "status"; }
  [[nodiscard]] const char* summary() const override { return "show how a coordinator's run is"; }
  [[nodiscard]] const char* example() const override {
    return "zerolock status --coordinator 192.168.1.10:7400 --tls certificates";
  }

  void declare(OptionTable& table) override {
    using Kept = OptionTable::Kept;
    reach_.declare(table);
    table.flag("once", once_, "show it once; otherwise until the run ends", Kept::on_command_line_only);
    table.flag("json", json_, "print one JSON object, once", Kept::on_command_line_only);
    table.real("interval", interval_seconds_, {0.1, 3600}, "seconds between two looks");
    log_.declare(table);
  }

  int run(OptionTable& table) override {
    block_interrupts();
    start_log(log_);
    if (table.given("interval") && (once_ || json_)) {
      throw InputError("--interval", "has no meaning with --once or --json");
    }
    StatusClient client(reach_.dial("status"));
    const InterruptWatch interrupts([&client] { client.interrupt(); });
    if (!once_ && !json_) return follow(client);
    const std::optional<RunStatus> status = client.fetch();
    if (!status) return status_interrupted;
    const std::string text = json_ ? to_json(*status).dump() + "\n" : status_table(*status);
    std::fputs(text.c_str(), stdout);
    return status_done;
  }

 private:
  int follow(StatusClient& client) const {
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    for (bool first = true;; first = false) {
      const std::optional<RunStatus> status = client.fetch();
      if (!status) return status_interrupted;
      if (first) spdlog::debug("the coordinator answers");
      show(*status, terminal);
      if (is_over(status->phase)) return status_done;
      client.pause(std::chrono::duration<double>(interval_seconds_));
    }
  }

  /// A terminal's picture is drawn over the one before, from its upper left corner.
  static void show(const RunStatus& status, bool terminal) {
    if (!terminal) {
      std::printf("%s\n", status_line(status).c_str());
    } else {
      std::string picture = "\x1b[H";
      for (const char c : status_table(status)) picture += c == '\n' ? "\x1b[K\n" : std::string(1, c);
      std::fputs((picture + "\x1b[J").c_str(), stdout);
    }
    std::fflush(stdout);
  }

  ReachOptions reach_;
  bool once_ = false;
  bool json_ = false;
  double interval_seconds_ = 1;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_status_command() {
  return std::make_unique<StatusCommand>();
}

}  // namespace zerolock
