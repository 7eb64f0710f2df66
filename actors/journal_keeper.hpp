#pragma once
/// The actor that owns the journal.

#include <memory>

#include "actors/core/journal.hpp"
#include "actors/protocol.hpp"

namespace zerolock {

/// Answers an append once the journal has kept the record.
JournalActor spawn_journal_keeper(caf::local_actor& parent, std::unique_ptr<Journal> journal);

}  // namespace zerolock
