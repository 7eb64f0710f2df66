#pragma once
/// The one place where a command asks for the phase before training in which readouts are calibrated.

#include <cstdint>

#include "data/batch_plan.hpp"
#include "supervision/local_cluster.hpp"

namespace zerolock {

/// Window 0 of the batches: the first so many rows.
template <class Options>
void read_rows_for_calibration(Options& options, std::uint64_t rows) {
  if constexpr (requires { options.calibration_rows = rows; }) options.calibration_rows = rows;
}

/// The run begins with the calibration of those stages that wait for it.
template <class Plan>
void begin_with_calibration(Plan& plan, bool wanted) {
  if constexpr (requires { plan.calibrate = wanted; }) plan.calibrate = wanted;
}

}  // namespace zerolock
