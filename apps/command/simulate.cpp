/// zerolock simulate: whole clusters in one thread, in virtual time, with everything going wrong that can.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "apps/command/command.hpp"
#include "supervision/simulation/simulation.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

using simulation::SimulationResult;
using simulation::SimulationSettings;

constexpr std::uint64_t stages_max = 64;

/// What all runs come to.
struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t stages = 0;
  std::uint64_t faults = 0;
  std::uint64_t lives = 0;
  std::uint64_t events = 0;
  double virtual_seconds = 0;
  std::uint64_t violations = 0;

  void add(const SimulationResult& result) {
    ++runs;
    stages += result.stages;
    faults += result.faults;
    lives += result.lives;
    events += result.events;
    virtual_seconds += result.virtual_seconds;
    if (!result.violation.empty()) ++violations;
  }
};

class SimulateCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "simulate"; }
  [[nodiscard]] const char* summary() const override {
    return "try recovery on simulated clusters, each from one seed";
  }
  [[nodiscard]] const char* example() const override { return "zerolock simulate --seeds 0..9999"; }

  void declare(OptionTable& table) override {
    table.text("seeds", seeds_, "FIRST..LAST, or one: each is a cluster and what happens to it");
    table.integer("stages", stages_, 1, stages_max, "stages of every cluster (default: as its seed says)");
    table.flag("log", log_, "print all that happens, in virtual time",
               OptionTable::Kept::on_command_line_only);
  }

  int run(OptionTable&) override {
    const auto [first, last] = seeds();
    Totals totals;
    for (std::uint64_t seed = first;; ++seed) {
      SimulationSettings settings;
      settings.seed = seed;
      settings.stages = stages_;
      settings.whole_log = log_;
      const SimulationResult result = simulation::simulate(settings);
      totals.add(result);
      show(seed, result);
      if (seed == last) break;
    }
    std::printf(
        "%llu runs with %llu stages: %llu faults, %llu lives of workers, %llu events in %.0f virtual "
        "seconds; %llu violations\n",
        as_printed(totals.runs), as_printed(totals.stages), as_printed(totals.faults),
        as_printed(totals.lives), as_printed(totals.events), totals.virtual_seconds,
        as_printed(totals.violations));
    return totals.violations == 0 ? status_done : status_failed;
  }

 private:
  static unsigned long long as_printed(std::uint64_t number) { return number; }

  void show(std::uint64_t seed, const SimulationResult& result) const {
    const bool violated = !result.violation.empty();
    if (violated || log_) {
      std::printf("seed %llu, %llu stages on %llu executors\n", as_printed(seed), as_printed(result.stages),
                  as_printed(result.executors));
      for (const std::string& line : result.log) std::printf("%s\n", line.c_str());
    }
    if (!violated) return;
    std::printf("seed %llu violates: %s\n", as_printed(seed), result.violation.c_str());
    std::fflush(stdout);
  }

  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> seeds() const {
    const std::size_t dots = seeds_.find("..");
    const auto number = [this](const std::string& text) {
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{} || end != text.data() + text.size()) {
        throw InputError("--seeds", "'" + seeds_ + "' is neither FIRST..LAST nor one whole number");
      }
      return value;
    };
    const std::uint64_t first = number(seeds_.substr(0, dots));
    const std::uint64_t last = dots == std::string::npos ? first : number(seeds_.substr(dots + 2));
    if (last < first) throw InputError("--seeds", "'" + seeds_ + "' ends before it begins");
    return {first, last};
  }

  std::string seeds_ = "0..499";
  std::optional<std::uint64_t> stages_;
  bool log_ = false;
};

}  // namespace

std::unique_ptr<Command> make_simulate_command() {
  return std::make_unique<SimulateCommand>();
}

}  // namespace zerolock
