#pragma once
/// What a machine keeps when its process dies: checkpoints that were written to the end, and some that were
/// not.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "supervision/simulation/timeline.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock::simulation {

struct StoredCheckpoint {
  std::uint64_t value = 0;
  std::uint64_t checksum = 0;
  bool complete = false;  // its manifest is there
};

/// The checkpoints of all stages on one machine.
class CheckpointDisk {
 public:
  struct Found {
    WindowIndex window;
    std::uint64_t value = 0;
  };
  struct Restored {
    std::optional<Found> found;
    std::vector<WindowIndex> bad;  // that were passed over
  };

  /// The parts of writing, in order. A good checkpoint that is there already is left alone.
  void begin_write(StageIndex stage, WindowIndex window, std::uint64_t value);  // temporary file
  void rename(StageIndex stage, WindowIndex window);
  void begin_manifest(StageIndex stage, WindowIndex window);
  void complete(StageIndex stage, WindowIndex window);
  /// Power or process is gone: what was being written may be torn.
  void crash(Random& random);
  /// One bit of a complete checkpoint is not what it was.
  bool flip(StageIndex stage, WindowIndex window);
  void erase() { stored_.clear(), open_.clear(); }

  [[nodiscard]] bool good(StageIndex stage, WindowIndex window) const;
  /// The newest good one; `trusting`: the newest one.
  [[nodiscard]] Restored restore(StageIndex stage, WindowIndex at_most, bool trusting) const;
  [[nodiscard]] std::optional<StoredCheckpoint> read(StageIndex stage, WindowIndex window) const;
  /// Windows with a complete checkpoint, ascending.
  [[nodiscard]] std::vector<WindowIndex> windows(StageIndex stage) const;
  /// As retire_checkpoints of actors/checkpoint_files.hpp.
  void store(StageIndex stage, WindowIndex window, const StoredCheckpoint& copy) {
    stored_[{stage, window}] = copy;
  }
  void retire(StageIndex stage, WindowIndex line);
  void discard_after(StageIndex stage, WindowIndex window);

  bool full = false;  // writing fails

 private:
  using Key = std::pair<StageIndex, WindowIndex>;
  enum class Part : std::uint8_t { temporary, renamed, manifest };
  struct Open {
    std::uint64_t value = 0;
    Part part = Part::temporary;
  };

  std::map<Key, StoredCheckpoint> stored_;
  std::map<Key, Open> open_;
};

}  // namespace zerolock::simulation
