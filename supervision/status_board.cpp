#include "supervision/status_board.hpp"

#include <algorithm>
#include <utility>

namespace zerolock {
namespace {

double seconds_between(StatusBoard::Clock::time_point begin, StatusBoard::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

StatusBoard::StatusBoard(std::string run_id, const std::vector<LayerRange>& partition,
                         WindowIndex last_window, std::uint64_t executors_wanted,
                         std::function<Clock::time_point()> now)
    : now_(std::move(now)), created_(now_()), work_began_(created_), work_seen_(created_) {
  status_.run_id = std::move(run_id);
  status_.windows_last = last_window;
  status_.executors_wanted = executors_wanted;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    StageStatus& added = status_.stages.emplace_back();
    added.stage = StageIndex{stage};
    added.layers = partition[stage];
  }
}

RunStatus StatusBoard::status() const {
  const std::lock_guard lock(mutex_);
  RunStatus status = status_;
  status.seconds = seconds_between(created_, is_over(status.phase) ? ended_ : now_());
  // Up to the latest window: a rate that falls between two windows says nothing.
  const double worked = seconds_between(work_began_, work_seen_);
  if (worked > 0) status.examples_per_second = static_cast<double>(status.examples) / worked;
  status.windows_done = status.stages.empty() ? WindowIndex{} : status.stages.front().committed;
  for (const StageStatus& stage : status.stages) {
    status.windows_done = std::min(status.windows_done, stage.committed);
  }
  for (const auto& [name, executor] : executors_) status.executors.push_back(executor);
  return status;
}

// -- the run -----------------------------------------------------------------------------------------------

void StatusBoard::begin(WindowIndex first_window, WindowIndex last_window, bool calibrates) {
  const std::lock_guard lock(mutex_);
  calibrates_ = calibrates;
  status_.windows_last = last_window;
  for (StageStatus& stage : status_.stages) {
    stage.committed = stage.durable = WindowIndex{first_window.value - 1};
  }
}

void StatusBoard::window_committed(const WindowReport& report) {
  const std::lock_guard lock(mutex_);
  StageStatus& stage = status_.stages.at(report.stage.value);
  if (report.window <= stage.committed) return;
  stage.committed = report.window;
  stage.task_loss = report.loss.task_loss;
  if (report.stage.value + 1 != status_.stages.size()) return;
  status_.examples += report.loss.examples;
  work_seen_ = now_();
}

void StatusBoard::calibrated(StageIndex stage) {
  const std::lock_guard lock(mutex_);
  calibrated_.insert(stage);
  if (status_.phase != RunPhase::calibrating || calibrated_.size() < status_.stages.size()) return;
  status_.phase = RunPhase::training;
  if (status_.examples == 0) start_work();
}

void StatusBoard::restarted(StageIndex stage, Incarnation incarnation) {
  const std::lock_guard lock(mutex_);
  StageStatus& known = status_.stages.at(stage.value);
  ++known.restarts;
  known.incarnation = incarnation;
}

void StatusBoard::durable(StageIndex stage, WindowIndex window) {
  const std::lock_guard lock(mutex_);
  StageStatus& known = status_.stages.at(stage.value);
  known.durable = std::max(known.durable, window);
}

void StatusBoard::queues(const StageQueues& queues) {
  const std::lock_guard lock(mutex_);
  status_.stages.at(queues.stage.value).queues = queues;
}

void StatusBoard::end(ClusterOutcome::Kind kind) {
  const std::lock_guard lock(mutex_);
  switch (kind) {
    case ClusterOutcome::Kind::finished:
      status_.phase = RunPhase::finished;
      break;
    case ClusterOutcome::Kind::stopped:
      status_.phase = RunPhase::stopped;
      break;
    case ClusterOutcome::Kind::failed:
      status_.phase = RunPhase::failed;
      break;
  }
  ended_ = now_();
}

void StatusBoard::start_work() {
  work_began_ = work_seen_ = now_();
}

// -- executors ---------------------------------------------------------------------------------------------

void StatusBoard::joined(const ExecutorCard& card) {
  const std::lock_guard lock(mutex_);
  ExecutorStatus& executor = executors_[card.name];
  executor = {card.name,      card.data_address,     card.cores, card.memory_bytes,
              card.gigaflops, ExecutorState::joined, {}};
}

void StatusBoard::assigned(const std::string& node, const std::vector<StageIndex>& stages) {
  const std::lock_guard lock(mutex_);
  const auto executor = executors_.find(node);
  if (executor == executors_.end()) return;
  executor->second.stages = stages;
  executor->second.state = stages.empty() ? ExecutorState::spare : ExecutorState::running;
  for (const StageIndex stage : stages) {
    StageStatus& known = status_.stages.at(stage.value);
    if (known.executor != node) known.queues.reset();  // those of the executor that has lost it
    known.executor = node;
  }
  if (status_.phase != RunPhase::waiting || stages.empty()) return;
  status_.phase = calibrates_ ? RunPhase::calibrating : RunPhase::training;
  start_work();
}

void StatusBoard::lost(const std::string& node) {
  set_state(node, ExecutorState::lost);
}

void StatusBoard::back(const std::string& node) {
  set_state(node, ExecutorState::running);
}

void StatusBoard::left(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto executor = executors_.find(node);
  if (executor == executors_.end()) return;
  if (executor->second.stages.empty()) {
    executors_.erase(executor);
  } else {
    executor->second.state = ExecutorState::lost;
  }
}

void StatusBoard::set_state(const std::string& node, ExecutorState state) {
  const std::lock_guard lock(mutex_);
  const auto executor = executors_.find(node);
  if (executor != executors_.end()) executor->second.state = state;
}

// -- how it is told ----------------------------------------------------------------------------------------

ClusterObserver watched(const std::shared_ptr<StatusBoard>& board, ClusterObserver observer) {
  ClusterObserver both = observer;
  both.window_committed = [board, next = observer.window_committed](const WindowReport& report) {
    board->window_committed(report);
    next(report);
  };
  both.calibrated = [board, next = observer.calibrated](StageIndex stage) {
    board->calibrated(stage);
    next(stage);
  };
  both.restarted = [board, next = observer.restarted](StageIndex stage, Incarnation incarnation,
                                                      const std::string& text) {
    board->restarted(stage, incarnation);
    next(stage, incarnation, text);
  };
  return both;
}

ExecutorObserver executor_observer(const std::shared_ptr<StatusBoard>& board) {
  ExecutorObserver observer;
  observer.joined = [board](const ExecutorCard& card) { board->joined(card); };
  observer.assigned = [board](const std::string& node, const std::vector<StageIndex>& stages) {
    board->assigned(node, stages);
  };
  observer.lost = [board](const std::string& node) { board->lost(node); };
  observer.back = [board](const std::string& node) { board->back(node); };
  observer.left = [board](const std::string& node) { board->left(node); };
  observer.queues = [board](const StageQueues& queues) { board->queues(queues); };
  observer.durable = [board](StageIndex stage, WindowIndex window) { board->durable(stage, window); };
  return observer;
}

}  // namespace zerolock
