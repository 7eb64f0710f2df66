#pragma once
/// The actor that writes, verifies, restores and retires a stage's checkpoints, in a thread of its own.

#include <chrono>
#include <filesystem>

#include "actors/core/fault_point.hpp"
#include "actors/protocol.hpp"

namespace zerolock {

struct CheckpointKeeperSetup {
  StageIndex stage;
  std::filesystem::path root;
  WindowIndex oldest;      // windows before it belong to another run and are never restored
  bool new_run = false;    // windows after `oldest` are leftovers: they are removed before anything else
  bool own_thread = true;  // false: for tests that step through messages
  std::chrono::steady_clock::time_point run_start;
  FaultHook fault;             // may be empty
  DurabilityOwnerActor owner;  // hears of every durable window
  RunRecorderActor recorder;
};

/// Fails, with the file and the cause, when the disk does.
CheckpointKeeperActor spawn_checkpoint_keeper(caf::local_actor& parent, const CheckpointKeeperSetup& setup);

}  // namespace zerolock
