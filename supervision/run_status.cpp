#include "supervision/run_status.hpp"

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using nlohmann::ordered_json;

constexpr RunPhase run_phases[] = {RunPhase::waiting,  RunPhase::calibrating, RunPhase::training,
                                   RunPhase::finished, RunPhase::stopped,     RunPhase::failed};

/// The value of that name among `all`.
template <class Value, std::size_t count>
Value named(const ordered_json& name, const Value (&all)[count]) {
  for (const Value value : all) {
    if (to_string(value) == name.get<std::string>()) return value;
  }
  throw RunError("unknown state " + name.dump());
}

ordered_json queues_json(const StageQueues& queues) {
  return {{"inbound_waiting", queues.inbound_waiting},
          {"inbound_held", queues.inbound_held},
          {"outbound_unsent", queues.outbound_unsent},
          {"outbound_held", queues.outbound_held}};
}

StageQueues queues_from(const ordered_json& json, StageIndex stage) {
  StageQueues queues;
  queues.stage = stage;
  json.at("inbound_waiting").get_to(queues.inbound_waiting);
  json.at("inbound_held").get_to(queues.inbound_held);
  json.at("outbound_unsent").get_to(queues.outbound_unsent);
  json.at("outbound_held").get_to(queues.outbound_held);
  return queues;
}

ordered_json stage_json(const StageStatus& stage) {
  ordered_json json;
  json["stage"] = stage.stage.value;
  json["executor"] = stage.executor.empty() ? ordered_json() : ordered_json(stage.executor);
  json["layers"] = {stage.layers.first, stage.layers.last - 1};
  json["committed_window"] = stage.committed.value;
  json["durable_window"] = stage.durable.value;
  json["task_loss"] = stage.task_loss ? ordered_json(*stage.task_loss) : ordered_json();
  json["restarts"] = stage.restarts;
  json["incarnation"] = stage.incarnation.value;
  json["queues"] = stage.queues ? queues_json(*stage.queues) : ordered_json();
  return json;
}

StageStatus stage_from(const ordered_json& json) {
  StageStatus stage;
  json.at("stage").get_to(stage.stage.value);
  if (!json.at("executor").is_null()) json.at("executor").get_to(stage.executor);
  json.at("layers").at(0).get_to(stage.layers.first);
  stage.layers.last = json.at("layers").at(1).get<std::int64_t>() + 1;
  json.at("committed_window").get_to(stage.committed.value);
  json.at("durable_window").get_to(stage.durable.value);
  if (!json.at("task_loss").is_null()) stage.task_loss = json.at("task_loss").get<double>();
  json.at("restarts").get_to(stage.restarts);
  json.at("incarnation").get_to(stage.incarnation.value);
  if (!json.at("queues").is_null()) stage.queues = queues_from(json.at("queues"), stage.stage);
  return stage;
}

ordered_json executor_json(const ExecutorStatus& executor) {
  ordered_json json;
  json["name"] = executor.name;
  json["state"] = to_string(executor.state);
  json["address"] = executor.address;
  json["cores"] = executor.cores;
  json["memory_bytes"] = executor.memory_bytes == 0 ? ordered_json() : ordered_json(executor.memory_bytes);
  json["gigaflops"] = executor.gigaflops == 0 ? ordered_json() : ordered_json(executor.gigaflops);
  json["stages"] = ordered_json::array();
  for (const StageIndex stage : executor.stages) json["stages"].push_back(stage.value);
  return json;
}

ExecutorStatus executor_from(const ordered_json& json) {
  ExecutorStatus executor;
  json.at("name").get_to(executor.name);
  executor.state = named(json.at("state"), executor_states);
  json.at("address").get_to(executor.address);
  json.at("cores").get_to(executor.cores);
  if (!json.at("memory_bytes").is_null()) json.at("memory_bytes").get_to(executor.memory_bytes);
  if (!json.at("gigaflops").is_null()) json.at("gigaflops").get_to(executor.gigaflops);
  for (const ordered_json& stage : json.at("stages")) {
    executor.stages.push_back(StageIndex{stage.get<std::uint64_t>()});
  }
  return executor;
}

RunStatus status_from(const ordered_json& json) {
  RunStatus status;
  json.at("run").get_to(status.run_id);
  status.phase = named(json.at("phase"), run_phases);
  json.at("seconds").get_to(status.seconds);
  json.at("windows_done").get_to(status.windows_done.value);
  json.at("windows_last").get_to(status.windows_last.value);
  json.at("examples").get_to(status.examples);
  json.at("examples_per_second").get_to(status.examples_per_second);
  json.at("executors_wanted").get_to(status.executors_wanted);
  for (const ordered_json& stage : json.at("stages")) status.stages.push_back(stage_from(stage));
  for (const ordered_json& item : json.at("executors")) status.executors.push_back(executor_from(item));
  return status;
}

}  // namespace

std::string to_string(RunPhase phase) {
  switch (phase) {
    case RunPhase::waiting:
      return "waiting";
    case RunPhase::calibrating:
      return "calibrating";
    case RunPhase::training:
      return "training";
    case RunPhase::finished:
      return "finished";
    case RunPhase::stopped:
      return "stopped";
    case RunPhase::failed:
      return "failed";
  }
  return "unknown";
}

bool is_over(RunPhase phase) {
  return phase == RunPhase::finished || phase == RunPhase::stopped || phase == RunPhase::failed;
}

std::string to_string(ExecutorState state) {
  switch (state) {
    case ExecutorState::joined:
      return "joined";
    case ExecutorState::running:
      return "running";
    case ExecutorState::lost:
      return "lost";
    case ExecutorState::spare:
      return "spare";
  }
  return "unknown";
}

ordered_json to_json(const RunStatus& status) {
  ordered_json json;
  json["run"] = status.run_id;
  json["phase"] = to_string(status.phase);
  json["seconds"] = status.seconds;
  json["windows_done"] = status.windows_done.value;
  json["windows_last"] = status.windows_last.value;
  json["examples"] = status.examples;
  json["examples_per_second"] = status.examples_per_second;
  json["executors_wanted"] = status.executors_wanted;
  json["stages"] = ordered_json::array();
  for (const StageStatus& stage : status.stages) json["stages"].push_back(stage_json(stage));
  json["executors"] = ordered_json::array();
  for (const ExecutorStatus& executor : status.executors) {
    json["executors"].push_back(executor_json(executor));
  }
  return json;
}

RunStatus run_status_from(const std::string& text) {
  try {
    return status_from(ordered_json::parse(text));
  } catch (const std::exception& error) {
    throw RunError(std::string("the status of the run makes no sense: ") + error.what());
  }
}

}  // namespace zerolock
