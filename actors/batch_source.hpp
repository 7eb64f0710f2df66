#pragma once
/// The actor in front of boundary 0: makes micro-batches as they are granted and as there is credit.

#include <memory>

#include "actors/protocol.hpp"
#include "data/micro_batch_provider.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

/// Entries are charged to `account`, which must outlive the actor.
BatchSourceActor spawn_batch_source(caf::local_actor& parent,
                                    std::shared_ptr<const MicroBatchProvider> batches,
                                    MemoryAccount& account);

}  // namespace zerolock
