#pragma once
/// report.html: a run's folder as one page.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/command/run_folder.hpp"

namespace zerolock {

/// The page of a run, finished or not: outcome, losses over windows, what stages did when, memory by
/// component, restarts, configuration. It names no address outside itself, and its size does not grow with
/// the run: where points or columns stand for more than one window or moment, it says so. What a run that
/// failed has not written is left out with a word. Throws InputError that names the file that is broken.
std::string run_report(const RunFolder& folder);

/// Means of neighbouring points, as few together as make `points_max` at most; x and y of each.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t points_max);

}  // namespace zerolock
