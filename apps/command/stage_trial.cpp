#include "apps/command/stage_trial.hpp"

#include <malloc.h>

namespace zerolock {

void try_stages(TrainingInputs& inputs) {
  const BackendFactory make_backend = inputs.backend_factory();
  for (std::uint64_t stage = 0; stage < inputs.partition.size(); ++stage) {
    MemoryAccount scratch;
    const std::unique_ptr<StageBackend> backend = make_backend(StageIndex{stage}, scratch);
    inputs.needs_calibration |= backend->needs_calibration();
    for (const auto& [name, tensor] : backend->state().tensors) inputs.state_bytes += tensor.nbytes();
  }
  // Converted weights were the largest thing that this process will ever have held.
  ::malloc_trim(0);
}

}  // namespace zerolock
