#pragma once
/// What `zerolock bench theory` has measured, and its rows and plot.

#include <string>
#include <vector>

#include "apps/report/bench_table.hpp"
#include "tensors/training/theory_probe.hpp"

namespace zerolock {

/// After a window; window 0 is the start.
struct TheoryWindow {
  std::uint64_t window = 0;
  double rate = 0;  // eta of the window's steps; 0 at the start
  TheoryPoint point;
};

/// One objective's run.
struct TheoryRun {
  std::string objective;  // as --objective names it
  std::vector<TheoryWindow> windows;
};

/// A row for each objective, window and stage, and one for all stages together (stage "all"). The ratios:
/// for each objective the largest drift / rate^2 and drift / (rate x |grad R|^2) of any window, all stages
/// together, with and without its sign, and the largest delta of any stage.
BenchResult theory_table(const std::vector<TheoryRun>& runs);
/// The rows of all stages together, for people.
BenchResult theory_summary(const BenchResult& table);
/// R, gradient norm, delta of each stage, drift, and drift / rate^2 over windows.
std::string theory_plot(const std::vector<TheoryRun>& runs);

}  // namespace zerolock
