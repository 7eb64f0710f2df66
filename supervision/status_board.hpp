#pragma once
/// Keeps what people want to know of the run that is on.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/remote/executor_observer.hpp"
#include "supervision/cluster_plan.hpp"
#include "supervision/run_status.hpp"

namespace zerolock {

/// Thread-safe. Told of what happens, it answers with the run's status of now.
class StatusBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// A run that waits for its executors; its time counts from here. `now` is called under a lock.
  StatusBoard(std::string run_id, const std::vector<LayerRange>& partition, WindowIndex last_window,
              std::uint64_t executors_wanted, std::function<Clock::time_point()> now = Clock::now);

  [[nodiscard]] RunStatus status() const;

  // -- the run

  /// `first_window`: the first to train. `calibrates`: readouts are fitted before it.
  void begin(WindowIndex first_window, WindowIndex last_window, bool calibrates);
  void window_committed(const WindowReport& report);
  void calibrated(StageIndex stage);
  void restarted(StageIndex stage, Incarnation incarnation);
  void durable(StageIndex stage, WindowIndex window);
  void queues(const StageQueues& queues);
  void end(ClusterOutcome::Kind kind);

  // -- executors, by their nodes' names; those that are not known are passed over

  void joined(const ExecutorCard& card);
  void assigned(const std::string& node, const std::vector<StageIndex>& stages);
  void lost(const std::string& node);
  void back(const std::string& node);
  /// Without stages it is forgotten, with stages it stays lost.
  void left(const std::string& node);

 private:
  void set_state(const std::string& node, ExecutorState state);
  /// The rate's clock starts with the work and, where readouts are fitted first, again after that.
  void start_work();

  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;  // of all below
  Clock::time_point created_;
  Clock::time_point work_began_;
  Clock::time_point work_seen_;  // when the last stage finished its latest window
  Clock::time_point ended_;
  bool calibrates_ = false;
  std::set<StageIndex> calibrated_;
  std::map<std::string, ExecutorStatus> executors_;
  RunStatus status_;  // without what is reckoned when it is asked for
};

/// `observer`, after the board has been told.
ClusterObserver watched(const std::shared_ptr<StatusBoard>& board, ClusterObserver observer);
ExecutorObserver executor_observer(const std::shared_ptr<StatusBoard>& board);

}  // namespace zerolock
