#pragma once
/// What a stage's recovery is compared with: all stages go back and train the missed windows together.

#include <cstdint>
#include <filesystem>

#include "apps/bench/recovery_shape.hpp"

namespace zerolock {

enum class WholeReplay : std::uint8_t {
  one_f_one_b,  // synchronous 1F1B: hidden states go forward, gradients come back
  zerolock,     // as zerolock trains, all stages from their last common checkpoint
};

/// Stages are threads of this process, with the same simulated durations, so that nothing is lost on the way
/// between them. Time counts from where the first forward begins. Bytes are those that stages take from one
/// another, with the framing that they would have between processes. `folder` is empty, for checkpoints.
RecoveryMeasure measure_whole_replay(const RecoveryShape& shape, WholeReplay replay,
                                     const std::filesystem::path& folder);

}  // namespace zerolock
