#pragma once
/// What a connection for the status of a run carries: an empty request from the watcher, and for each the
/// status as JSON in a part frame. At the end of the run a last status comes unasked, then the bye.

#include <cstdint>
#include <string>

#include "supervision/run_status.hpp"
#include "transport/connection.hpp"

namespace zerolock {

/// Of a status as JSON: some 10,000 stages and executors.
inline constexpr std::uint32_t status_bytes_max = 4U << 20U;

Frame status_request_frame();
Frame status_frame(const RunStatus& status);
/// Throws RunError of one line.
RunStatus read_status(const Frame& frame);

/// What the coordinator takes from a watcher, and a watcher from the coordinator.
ConnectionOptions watcher_options();
ConnectionOptions watched_options();

}  // namespace zerolock
