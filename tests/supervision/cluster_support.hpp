#pragma once
/// A local cluster over the simulated backend, and the same training done without actors to compare with.

#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "supervision/local_cluster.hpp"
#include "tensors/training/simulated_backend.hpp"
#include "tests/temporary_folder.hpp"

namespace zerolock::test {

inline constexpr std::int64_t simulated_width = 4;

/// Micro-batches of one sequence, with contents that differ; the last window is smaller. Window 0 has as many
/// as the first.
class CountingBatches final : public MicroBatchProvider {
 public:
  CountingBatches(std::uint64_t windows, std::uint64_t micro_batches)
      : windows_{windows}, micro_batches_(micro_batches) {}

  [[nodiscard]] WindowIndex last_window() const override { return windows_; }
  [[nodiscard]] std::uint64_t micro_batches(WindowIndex window) const override {
    return window == windows_ && micro_batches_ > 1 ? micro_batches_ - 1 : micro_batches_;
  }
  [[nodiscard]] Entry make(const BatchPosition& position) const override;

 private:
  WindowIndex windows_;
  std::uint64_t micro_batches_;
};

/// What the observer heard.
struct Heard {
  std::vector<WindowReport> reports;
  std::vector<TraceSpan> spans;
  std::vector<StageIndex> calibrated;
  std::vector<std::string> restarts;
};

struct ClusterCase {
  std::uint64_t stages = 3;
  std::uint64_t windows = 4;
  std::uint64_t micro_batches = 3;
  ClusterPlan plan;  // stages, last window and folder are filled in
  BackendFactory make_backend;
  std::function<bool()> stop_requested;
  FaultHook fault;
  std::function<void(const WindowReport&)> on_report;
};

struct ClusterResult {
  ClusterOutcome outcome;
  Heard heard;
};

/// Throws once, at one point of one stage.
class OneFault {
 public:
  OneFault(FaultPoint point, StageIndex stage, BatchPosition position)
      : point_(point), stage_(stage), position_(position) {}
  FaultHook hook() {
    return [this](FaultPoint point, StageIndex stage, Incarnation, const BatchPosition& position) {
      if (point != point_ || stage != stage_ || position != position_) return;
      if (hit_.exchange(true)) return;
      throw std::runtime_error("an injected fault at " + std::string(to_string(point)));
    };
  }
  [[nodiscard]] bool hit() const { return hit_; }

 private:
  FaultPoint point_;
  StageIndex stage_;
  BatchPosition position_;
  std::atomic<bool> hit_{false};
};

std::unique_ptr<StageBackend> simulated(StageIndex stage, MemoryAccount& account);
/// Waits for its calibration.
std::unique_ptr<StageBackend> calibrating(StageIndex stage, MemoryAccount& account);

/// Runs in `folder`.
ClusterResult run_cluster(const ClusterCase& given, const TemporaryFolder& folder);

/// States of all stages after `windows` windows, trained one micro-batch after another in this thread; first
/// calibrated, with window 0, if a backend asks for it.
std::vector<StageState> train_in_sequence(std::uint64_t stages, std::uint64_t windows,
                                          std::uint64_t micro_batches, std::uint64_t plan_windows,
                                          const BackendFactory& make_backend = simulated);

bool same_state(const StageState& a, const StageState& b);

}  // namespace zerolock::test
