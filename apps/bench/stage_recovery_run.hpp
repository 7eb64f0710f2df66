#pragma once
/// A run in which one stage is away for some windows and makes up for them, alone.

#include <cstdint>
#include <filesystem>

#include "apps/bench/recovery_shape.hpp"

namespace zerolock {

enum class StageFailure : std::uint8_t {
  process_killed,  // SIGKILL; a new process joins when the stage may come back
  worker_died,     // the process lives, with its buffers; its worker's next life begins then
};

/// The coordinator in this process, and for each stage an executor in a process of its own, started from this
/// program's file. Time counts from the word that the stage's new life begins to the word of the commit, both
/// as the coordinator hears them: what restoring the state and fetching the first entry take is part of it.
/// `folder` is empty, and keeps what the processes leave. Throws RunError if the run fails or goes another
/// way than it should.
RecoveryMeasure measure_stage_recovery(const RecoveryShape& shape, StageFailure failure,
                                       const std::filesystem::path& folder);

}  // namespace zerolock
