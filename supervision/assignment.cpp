#include "supervision/assignment.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensors/base/error.hpp"
#include "tensors/training/settings_text.hpp"

namespace zerolock {
namespace {

using Json = nlohmann::json;

constexpr std::size_t stages_max = 4096;

Json neighbours_to(const std::map<StageIndex, Neighbour>& neighbours) {
  Json list = Json::array();
  for (const auto& [boundary, neighbour] : neighbours) {
    list.push_back({{"boundary", boundary.value},
                    {"node", neighbour.node},
                    {"coordinator", neighbour.coordinator},
                    {"address", neighbour.address},
                    {"placement", neighbour.placement.value}});
  }
  return list;
}

std::map<StageIndex, Neighbour> neighbours_from(const Json& list) {
  std::map<StageIndex, Neighbour> neighbours;
  for (const Json& item : list) {
    neighbours[StageIndex{item.at("boundary").get<std::uint64_t>()}] = {
        item.at("node").get<std::string>(), item.at("coordinator").get<bool>(),
        item.at("address").get<std::string>(), Placement{item.at("placement").get<std::uint64_t>()}};
  }
  return neighbours;
}

Json simulated_to(const std::optional<SimulatedCompute>& simulated) {
  if (!simulated) return nullptr;
  return {{"forward_nanoseconds", simulated->durations.forward.count()},
          {"backward_nanoseconds", simulated->durations.backward.count()},
          {"step_nanoseconds", simulated->durations.step.count()},
          {"occupies_core", simulated->durations.occupies_core},
          {"state_bytes", simulated->state_bytes}};
}

std::optional<SimulatedCompute> simulated_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const auto duration = [&json](const char* key) {
    return std::chrono::nanoseconds(json.at(key).get<std::int64_t>());
  };
  SimulatedCompute simulated;
  simulated.durations = {duration("forward_nanoseconds"), duration("backward_nanoseconds"),
                         duration("step_nanoseconds"), json.at("occupies_core").get<bool>()};
  simulated.state_bytes = json.at("state_bytes").get<std::int64_t>();
  return simulated;
}

/// What readers may rely on: contiguous layers, stages that exist, windows and bounds that are not zero.
void check(const Assignment& assignment, const std::string& where) {
  const auto refuse = [&where](const char* key, const std::string& reason) {
    throw InputError(where, std::string(key) + " " + reason);
  };
  if (assignment.partition.empty() || assignment.partition.size() > stages_max) {
    refuse("partition", "must have 1 to " + std::to_string(stages_max) + " stages");
  }
  std::int64_t layer = 0;
  for (const LayerRange& range : assignment.partition) {
    if (range.first != layer || range.last <= range.first) refuse("partition", "is not contiguous");
    layer = range.last;
  }
  if (assignment.hosted.empty()) refuse("hosted", "names no stage");
  for (std::size_t i = 0; i < assignment.hosted.size(); ++i) {
    const StageIndex stage = assignment.hosted[i];
    if (stage.value >= assignment.partition.size()) refuse("hosted", "names a stage that there is not");
    if (i > 0 && stage <= assignment.hosted[i - 1]) refuse("hosted", "is not ascending");
  }
  if (assignment.placements.size() != assignment.hosted.size())
    refuse("placements", "is not one for each stage");
  for (const Placement placement : assignment.placements) {
    if (placement.value == 0) refuse("placements", "count from 1");
  }
  if (assignment.first_window.value == 0) refuse("first_window", "must be at least 1");
  if (assignment.checkpoint_every == 0) refuse("checkpoint_every", "must be at least 1");
  if (assignment.hang_after_milliseconds == 0) refuse("hang_after_milliseconds", "must be at least 1");
  if (assignment.depth == 0) refuse("depth", "must be at least 1");
  if (assignment.replay_batch == 0) refuse("replay_batch", "must be at least 1");
  if (assignment.buffer_bytes_max == 0) refuse("buffer_bytes_max", "must be at least 1");
  if (assignment.rows_max <= 0 || assignment.sequences_max <= 0) refuse("rows_max", "must be at least 1");
  if (assignment.width <= 0 || assignment.vocabulary <= 0) refuse("width", "must be at least 1");
  if (assignment.since_run_start.count() < 0) refuse("since_run_start_nanoseconds", "must not be negative");
  if (assignment.simulated) {
    const SimulatedDurations& durations = assignment.simulated->durations;
    const auto least = std::min({durations.forward, durations.backward, durations.step});
    if (least.count() < 0 || assignment.simulated->state_bytes < 0) {
      refuse("simulated", "has a negative number");
    }
  }
  bool first = true;
  for (const auto& [windows, count] : assignment.micro_batches.stretches()) {
    const bool only_window_0 = first && windows == 1;
    if (windows == 0 || (count == 0 && !only_window_0)) refuse("micro_batches", "has an empty window");
    first = false;
  }
  if (assignment.micro_batches.stretches().empty()) refuse("micro_batches", "is empty");
  assignment.settings.check(assignment.partition.size());
}

}  // namespace

std::string assignment_text(const Assignment& assignment) {
  Json partition = Json::array();
  for (const LayerRange& range : assignment.partition) partition.push_back({range.first, range.last});
  Json hosted = Json::array();
  for (const StageIndex stage : assignment.hosted) hosted.push_back(stage.value);
  Json faults = Json::array();
  for (const Fault& fault : assignment.faults) faults.push_back(to_string(fault));
  Json placements = Json::array();
  for (const Placement placement : assignment.placements) placements.push_back(placement.value);
  const Json text = {{"run_id", assignment.run_id},
                     {"session", assignment.session},
                     {"partition", partition},
                     {"hosted", hosted},
                     {"placements", placements},
                     {"upstreams", neighbours_to(assignment.upstreams)},
                     {"downstreams", neighbours_to(assignment.downstreams)},
                     {"settings", training_settings_text(assignment.settings)},
                     {"first_window", assignment.first_window.value},
                     {"last_window", assignment.last_window.value},
                     {"calibrates", assignment.calibrates},
                     {"resumed", assignment.resumed},
                     {"micro_batches", assignment.micro_batches.stretches()},
                     {"checkpoint_every", assignment.checkpoint_every},
                     {"restarts_max", assignment.restarts_max},
                     {"restart_seconds", assignment.restart_seconds},
                     {"hang_after_milliseconds", assignment.hang_after_milliseconds},
                     {"faults", faults},
                     {"since_run_start_nanoseconds", assignment.since_run_start.count()},
                     {"depth", assignment.depth},
                     {"buffer_bytes_max", assignment.buffer_bytes_max},
                     {"replay_batch", assignment.replay_batch},
                     {"rows_max", assignment.rows_max},
                     {"sequences_max", assignment.sequences_max},
                     {"width", assignment.width},
                     {"vocabulary", assignment.vocabulary},
                     {"wire_type", assignment.wire_type},
                     {"model_hash", assignment.model_hash},
                     {"simulated", simulated_to(assignment.simulated)}};
  return text.dump();
}

Assignment assignment_from_text(const std::string& where, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw InputError(where, "is not JSON");
  Assignment assignment;
  try {
    assignment.run_id = json.at("run_id").get<std::string>();
    assignment.session = json.at("session").get<std::string>();
    for (const Json& range : json.at("partition")) {
      assignment.partition.push_back({range.at(0).get<std::int64_t>(), range.at(1).get<std::int64_t>()});
    }
    for (const Json& stage : json.at("hosted")) {
      assignment.hosted.push_back(StageIndex{stage.get<std::uint64_t>()});
    }
    for (const Json& placement : json.at("placements")) {
      assignment.placements.push_back(Placement{placement.get<std::uint64_t>()});
    }
    assignment.upstreams = neighbours_from(json.at("upstreams"));
    assignment.downstreams = neighbours_from(json.at("downstreams"));
    assignment.settings =
        training_settings_from_text(where + ": settings", json.at("settings").get<std::string>());
    assignment.first_window = WindowIndex{json.at("first_window").get<std::uint64_t>()};
    assignment.last_window = WindowIndex{json.at("last_window").get<std::uint64_t>()};
    assignment.calibrates = json.at("calibrates").get<bool>();
    assignment.resumed = json.at("resumed").get<bool>();
    assignment.micro_batches =
        MicroBatchCounts(json.at("micro_batches").get<std::vector<MicroBatchCounts::Stretch>>());
    assignment.checkpoint_every = json.at("checkpoint_every").get<std::uint64_t>();
    assignment.restarts_max = json.at("restarts_max").get<std::uint64_t>();
    assignment.restart_seconds = json.at("restart_seconds").get<std::uint64_t>();
    assignment.hang_after_milliseconds = json.at("hang_after_milliseconds").get<std::uint64_t>();
    for (const Json& fault : json.at("faults")) {
      assignment.faults.push_back(parse_fault(fault.get<std::string>(), where + ": faults"));
    }
    assignment.since_run_start =
        std::chrono::nanoseconds(json.at("since_run_start_nanoseconds").get<std::int64_t>());
    assignment.depth = json.at("depth").get<std::uint64_t>();
    assignment.buffer_bytes_max = json.at("buffer_bytes_max").get<std::uint64_t>();
    assignment.replay_batch = json.at("replay_batch").get<std::uint64_t>();
    assignment.rows_max = json.at("rows_max").get<std::int64_t>();
    assignment.sequences_max = json.at("sequences_max").get<std::int64_t>();
    assignment.width = json.at("width").get<std::int64_t>();
    assignment.vocabulary = json.at("vocabulary").get<std::int64_t>();
    assignment.wire_type = json.at("wire_type").get<std::string>();
    assignment.model_hash = json.at("model_hash").get<std::string>();
    assignment.simulated = simulated_from(json.at("simulated"));
  } catch (const Json::exception& error) {
    throw InputError(where, std::string("is not an assignment: ") + error.what());
  }
  check(assignment, where);
  return assignment;
}

}  // namespace zerolock
