#pragma once
/// What a coordinator tells an executor to run, as text: everything but the weights.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/fault_plan.hpp"
#include "actors/core/micro_batch_counts.hpp"
#include "actors/core/placement_core.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/simulated_backend.hpp"

namespace zerolock {

/// Who is on the other side of a boundary.
struct Neighbour {
  std::string node;  // its name
  bool coordinator = false;
  std::string address;  // where it lets downstreams in; not needed of a downstream
  Placement placement;  // of a downstream: the one that may cross the boundary
};

struct Assignment {
  std::string run_id;
  std::string session;                // of the run: the coordinator's, from one orderly end to the next
  std::vector<LayerRange> partition;  // of all stages
  std::vector<StageIndex> hosted;     // by this executor, ascending
  std::vector<Placement> placements;  // of each of them
  /// Of stages whose upstream, or downstream, is in another process: by the stage into which the boundary
  /// leads. Without a name while nobody has that stage; word of it follows.
  std::map<StageIndex, Neighbour> upstreams;
  std::map<StageIndex, Neighbour> downstreams;

  TrainingSettings settings;
  WindowIndex first_window{1};
  WindowIndex last_window{1};
  bool calibrates = false;
  bool resumed = false;  // initial states have been sent
  MicroBatchCounts micro_batches;
  std::uint64_t checkpoint_every = 1;
  std::uint64_t restarts_max = 5;
  std::uint64_t restart_seconds = 60;
  std::uint64_t hang_after_milliseconds = 120'000;  // a compute step is never given up before
  std::vector<Fault> faults;                        // to inject; of any stages
  std::chrono::nanoseconds since_run_start{0};      // when the coordinator made this assignment

  std::uint64_t depth = 4;
  std::uint64_t buffer_bytes_max = 0;
  std::uint64_t replay_batch = 1;
  std::int64_t rows_max = 0;       // of a micro-batch
  std::int64_t sequences_max = 0;  // the same
  std::int64_t width = 0;          // of a hidden state
  std::int64_t vocabulary = 0;
  std::string wire_type = "fp32";  // transport/entry_frame.hpp

  /// Names the model; what of it a stage needs is fetched by that name. Empty: no model is needed.
  std::string model_hash;
  std::optional<SimulatedCompute> simulated;  // instead of a model
};

/// One line of JSON.
std::string assignment_text(const Assignment& assignment);
/// Reads that text. Throws InputError that begins with `where` and names the key.
Assignment assignment_from_text(const std::string& where, const std::string& text);

}  // namespace zerolock
