#pragma once
/// What people want to know of a run while it is on: plain data, and its JSON.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/reports.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

enum class RunPhase : std::uint8_t {
  waiting,      // for executors
  calibrating,  // readouts are fitted before window 1
  training,
  finished,
  stopped,
  failed,
};
/// "waiting" and the like.
std::string to_string(RunPhase phase);
/// Nothing changes any more.
[[nodiscard]] bool is_over(RunPhase phase);

enum class ExecutorState : std::uint8_t {
  joined,   // waits for others
  running,  // has stages
  lost,     // has stages, but is not connected; waited for
  spare,    // stands by without stages
};
inline constexpr ExecutorState executor_states[] = {ExecutorState::joined, ExecutorState::running,
                                                    ExecutorState::lost, ExecutorState::spare};
/// "joined" and the like.
std::string to_string(ExecutorState state);

struct StageStatus {
  StageIndex stage;
  std::string executor;  // its name; empty: none has the stage yet
  LayerRange layers;
  WindowIndex committed;
  WindowIndex durable;              // at the coordinator
  std::optional<double> task_loss;  // of the committed window
  std::uint64_t restarts = 0;       // in this session of the run
  Incarnation incarnation{1};
  std::optional<StageQueues> queues;  // as its executor has said lately

  bool operator==(const StageStatus&) const = default;
};

struct ExecutorStatus {
  std::string name;
  std::string address;  // where it lets downstream stages in
  std::uint64_t cores = 0;
  std::uint64_t memory_bytes = 0;  // that stages may use; 0: not stated
  double gigaflops = 0;            // of matrix products on all its cores; 0: not measured
  ExecutorState state = ExecutorState::joined;
  std::vector<StageIndex> stages;

  bool operator==(const ExecutorStatus&) const = default;
};

struct RunStatus {
  std::string run_id;
  RunPhase phase = RunPhase::waiting;
  double seconds = 0;         // that this session of the run has been on
  WindowIndex windows_done;   // by all stages
  WindowIndex windows_last;   // that is planned
  std::int64_t examples = 0;  // that the last stage has trained on in this session
  double examples_per_second = 0;
  std::uint64_t executors_wanted = 0;
  std::vector<StageStatus> stages;
  std::vector<ExecutorStatus> executors;  // by name

  bool operator==(const RunStatus&) const = default;
};

/// Layers as [first, last], both inclusive. What is not known is null.
nlohmann::ordered_json to_json(const RunStatus& status);
/// to_json's opposite. Throws RunError of one line for anything else.
RunStatus run_status_from(const std::string& text);

}  // namespace zerolock
