#include "supervision/simulation/disk.hpp"

#include "supervision/simulation/numbers.hpp"

namespace zerolock::simulation {

void CheckpointDisk::begin_write(StageIndex stage, WindowIndex window, std::uint64_t value) {
  if (!good(stage, window)) open_[{stage, window}] = {value, Part::temporary};
}

void CheckpointDisk::rename(StageIndex stage, WindowIndex window) {
  const auto open = open_.find({stage, window});
  if (open == open_.end()) return;
  open->second.part = Part::renamed;
  stored_[{stage, window}] = {open->second.value, 0, false};
}

void CheckpointDisk::begin_manifest(StageIndex stage, WindowIndex window) {
  const auto open = open_.find({stage, window});
  if (open != open_.end()) open->second.part = Part::manifest;
}

void CheckpointDisk::complete(StageIndex stage, WindowIndex window) {
  const auto open = open_.find({stage, window});
  if (open == open_.end()) return;
  const std::uint64_t value = open->second.value;
  stored_[{stage, window}] = {value, seal(stage, window, value), true};
  open_.erase(open);
}

void CheckpointDisk::crash(Random& random) {
  for (const auto& [key, open] : open_) {
    // A file whose data had not reached the disk when its name did.
    if (open.part == Part::manifest && random.one_in(2)) {
      stored_[key] = {open.value ^ random.next(), seal(key.first, key.second, open.value), true};
    }
  }
  open_.clear();
}

bool CheckpointDisk::flip(StageIndex stage, WindowIndex window) {
  if (!good(stage, window)) return false;
  stored_[{stage, window}].value ^= 1;
  return true;
}

bool CheckpointDisk::good(StageIndex stage, WindowIndex window) const {
  const auto found = read(stage, window);
  return found && found->complete && found->checksum == seal(stage, window, found->value);
}

std::optional<StoredCheckpoint> CheckpointDisk::read(StageIndex stage, WindowIndex window) const {
  const auto found = stored_.find({stage, window});
  return found == stored_.end() ? std::nullopt : std::optional(found->second);
}

CheckpointDisk::Restored CheckpointDisk::restore(StageIndex stage, WindowIndex at_most, bool trusting) const {
  Restored restored;
  const std::vector<WindowIndex> all = windows(stage);
  for (auto window = all.rbegin(); window != all.rend(); ++window) {
    if (*window > at_most) continue;
    if (trusting || good(stage, *window)) {
      restored.found = Found{*window, stored_.at({stage, *window}).value};
      return restored;
    }
    restored.bad.push_back(*window);
  }
  return restored;
}

std::vector<WindowIndex> CheckpointDisk::windows(StageIndex stage) const {
  std::vector<WindowIndex> found;
  for (auto at = stored_.lower_bound({stage, {}}); at != stored_.end() && at->first.first == stage; ++at) {
    if (at->second.complete) found.push_back(at->first.second);
  }
  return found;
}

void CheckpointDisk::retire(StageIndex stage, WindowIndex line) {
  const std::vector<WindowIndex> all = windows(stage);
  bool kept_older = false;
  for (auto window = all.rbegin(); window != all.rend(); ++window) {
    if (*window >= line) continue;
    if (!kept_older && good(stage, *window)) {
      kept_older = true;
    } else {
      stored_.erase({stage, *window});
    }
  }
}

void CheckpointDisk::discard_after(StageIndex stage, WindowIndex window) {
  for (auto at = stored_.upper_bound({stage, window}); at != stored_.end() && at->first.first == stage;) {
    at = stored_.erase(at);
  }
}

}  // namespace zerolock::simulation
