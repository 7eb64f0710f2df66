#pragma once
/// Each stage of a run, built once before anything is written.

#include <cstdint>

#include "apps/command/training_inputs.hpp"

namespace zerolock {

/// Builds one stage after the other, to be sure that each can be built, and notes in `inputs` what they say:
/// whether one needs calibration, and the bytes of their states. Throws InputError.
void try_stages(TrainingInputs& inputs);

}  // namespace zerolock
