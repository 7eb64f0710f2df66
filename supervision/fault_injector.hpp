#pragma once
/// Carries faults out in this process when a stage comes to their place.

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/core/fault_plan.hpp"
#include "tensors/files/file_operations.hpp"

namespace zerolock {

/// What a process lets be done to it. Each may be empty: faults that need it then throw RunError at their
/// place.
struct FaultTargets {
  std::filesystem::path checkpoints;                   // root, as of actors/checkpoint_files.hpp
  std::function<void(StageIndex)> drop_links;          // all data connections of the stage's process
  std::function<void(StageIndex)> corrupt_next_frame;  // of what the stage sends on
  std::function<void(const std::string&)> note;        // one line, before the fault; from any thread
};

/// Thread-safe. Must outlive every call of its hook.
class FaultInjector {
 public:
  FaultInjector(std::vector<Fault> faults, FaultTargets targets);
  /// Threads that hang are let go.
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  [[nodiscard]] FaultHook hook();
  void add(const Fault& fault);
  /// Lets all threads that hang, now or later, go on.
  void release();
  /// Faults that have not happened as often as they should.
  [[nodiscard]] std::vector<Fault> outstanding() const;
  /// Faults that have happened.
  [[nodiscard]] std::uint64_t happened() const;

 private:
  void reached(FaultPoint point, StageIndex stage, const BatchPosition& position);
  void carry_out(const Fault& fault, const std::string& where);
  void hang(std::chrono::milliseconds length);
  FileVerdict judge(FileOperation operation, const std::filesystem::path& file);

  FaultTargets targets_;
  mutable std::mutex mutex_;
  std::condition_variable released_changed_;
  FaultPlan plan_;
  bool released_ = false;
  std::uint64_t happened_ = 0;
  std::map<StageIndex, std::uint64_t> failing_writes_;  // that are still to come
  FileFaultScope file_faults_;                          // last: it is asked from here on
};

}  // namespace zerolock
