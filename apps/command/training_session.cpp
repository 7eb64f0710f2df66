#include "apps/command/training_session.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "actors/checkpoint_files.hpp"
#include "actors/journal_file.hpp"
#include "apps/command/adapter_output.hpp"
#include "apps/command/command.hpp"
#include "apps/command/random_model.hpp"
#include "apps/command/run_report.hpp"
#include "apps/command/run_summary.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"

namespace zerolock {

namespace {

/// A checkpoint of each stage now, one being written and one older, the adapter, and room for metrics and
/// trace.
constexpr std::uint64_t checkpoints_at_once = 3;
constexpr std::uint64_t other_files_bytes = 16 * 1024 * 1024;

std::string new_run_id(const RunRecord& record) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return sha256_of(record.to_json().dump() + std::to_string(now) + " " + std::to_string(::getpid()))
      .substr(0, 16);
}

/// Executors of an earlier session of the same run are told from those of this one by it.
std::string new_session_name(const std::string& run_id) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return run_id + "-" + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

/// States of the given window, cut for `partition`.
std::vector<StageState> states_at(const std::filesystem::path& checkpoints, std::uint64_t stages,
                                  WindowIndex window, const std::vector<LayerRange>& partition,
                                  bool cut_again) {
  std::vector<StageState> states;
  for (std::uint64_t stage = 0; stage < stages; ++stage) {
    states.push_back(read_checkpoint(checkpoints, StageIndex{stage}, window));
  }
  if (!cut_again) return states;
  const StageState merged = merge_states(states);
  states.clear();
  for (const LayerRange& range : partition) states.push_back(cut_state(merged, range));
  return states;
}

/// Looks at the folder's journal. The session that it tells of is to be gone on with if its executors may
/// still be at work: where a coordinator came to no end, that has promised them what stands there.
void read_earlier_session(const RunFolder& folder, const RunRecord& earlier, StartingPoint& start) {
  std::optional<JournalState> state;
  try {
    state = replay(read_journal(folder.journal()).records);
  } catch (const InputError& error) {
    start.warnings.push_back(std::string(error.what()) + "; stages begin anew from their checkpoints");
    start.journal_damaged = true;
  }
  const std::size_t stages = start.record.partition.size();
  if (!state || earlier.partition != start.record.partition || state->placed.size() != stages) return;
  for (const auto& [stage, placed] : state->placed) start.hosts_before.push_back(placed.node);
  const bool ended = state->over || earlier.status != RunRecord::Status::running;
  const bool goes_on = earlier.command == "coordinator" && start.record.last_window == earlier.last_window;
  if (!ended && goes_on) start.recovers = std::move(state);
}

/// The page only shows what the folder holds, so a run does not fail for the lack of it.
void write_report(const RunFolder& folder) {
  try {
    write_text_file(folder.report(), run_report(folder));
  } catch (const std::exception& error) {
    spdlog::warn("no report.html: {}", error.what());
  }
}

/// Calibrated readouts belong to the layers that they were fitted behind, so a new cut has none.
void check_readouts_fit(const TrainingInputs& inputs, const std::vector<StageState>& states,
                        const std::string& where) {
  if (!inputs.needs_calibration) return;
  const BackendFactory make_backend = inputs.backend_factory();
  for (std::size_t stage = 0; stage < states.size(); ++stage) {
    MemoryAccount scratch;
    const std::unique_ptr<StageBackend> backend = make_backend(StageIndex{stage}, scratch);
    backend->restore(states[stage]);
    if (backend->needs_calibration()) {
      throw InputError(where, "stage " + std::to_string(stage) +
                                  " would need a readout that was calibrated behind other layers; go on with "
                                  "the stages that the run was made with");
    }
  }
}

}  // namespace

RunRecord planned_record(const TrainOptions& options, const TrainingInputs& inputs) {
  RunRecord record;
  record.model_path = absolute_model_text(*options.model);
  record.model_hash = inputs.model.files->content_hash();
  record.data_path = std::filesystem::absolute(*options.rows.data).lexically_normal().string();
  record.data_hash = inputs.dataset->content_hash;
  record.settings = options.deciding_settings();
  record.partition = inputs.partition;
  record.last_window = inputs.batches->last_window().value;
  record.restarts.assign(inputs.partition.size(), 0);
  return record;
}

StartingPoint start_new_run(const TrainOptions& options, const TrainingInputs& inputs,
                            const RunFolder& folder) {
  StartingPoint start;
  start.record = planned_record(options, inputs);
  start.record.run_id = new_run_id(start.record);
  folder.check_free(start.record, checkpoints_at_once * inputs.state_bytes + other_files_bytes);
  return start;
}

StartingPoint start_resumed_run(const TrainOptions& options, const TrainingInputs& inputs,
                                const RunFolder& folder) {
  const RunRecord earlier = folder.read_record();
  StartingPoint start;
  start.record = planned_record(options, inputs);
  check_resumable(earlier, start.record, folder.path());
  const std::string where = "--resume " + folder.path().string();
  const std::filesystem::path checkpoints = folder.checkpoints(earlier.partition);
  const std::uint64_t stages = earlier.partition.size();
  const std::optional<WindowIndex> found = common_durable_window(checkpoints, stages);
  const WindowIndex durable = found.value_or(WindowIndex{0});
  if (durable.value < earlier.durable) {
    std::string problem = "checkpoints of window " + std::to_string(earlier.durable) + " are not there";
    for (std::uint64_t stage = 0; stage < stages; ++stage) {
      const std::string bad = verify_checkpoint(checkpoints, StageIndex{stage}, WindowIndex{earlier.durable});
      if (!bad.empty()) problem = bad;
    }
    if (durable.value == 0) throw InputError(where, "no good checkpoint: " + problem);
    start.warnings.push_back(problem + "; going back to window " + std::to_string(durable.value));
  }
  // A session that came to no end may have had nothing left to do but to write its results.
  const bool came_to_an_end = earlier.status != RunRecord::Status::running;
  if (came_to_an_end && durable.value >= start.record.last_window) {
    throw InputError(where, "the run has reached window " + std::to_string(durable.value) +
                                ", its last; to go on, give more --windows or --epochs");
  }
  start.record.run_id = earlier.run_id;
  start.record.recipe = earlier.recipe;
  start.record.durable = durable.value;
  start.record.wall_seconds = earlier.wall_seconds;
  const bool cut_again = earlier.partition != inputs.partition;
  if (!cut_again) start.record.restarts = earlier.restarts;
  const auto summary = nlohmann::ordered_json::parse(
      std::filesystem::exists(folder.summary()) ? read_text_file(folder.summary()) : "null", nullptr, false);
  if (summary.is_object()) start.summary = summary;
  read_earlier_session(folder, earlier, start);
  if (start.recovers) {
    const WindowIndex before = start.recovers->before_first;
    start.first_window = before.next();
    bool there = before.value > 0;
    for (std::uint64_t stage = 0; stage < stages && there; ++stage) {
      there = verify_checkpoint(checkpoints, StageIndex{stage}, before).empty();
    }
    // Where they are gone, every stage has later ones.
    if (there) start.states = states_at(checkpoints, stages, before, inputs.partition, false);
    return start;
  }
  start.first_window = durable.next();
  if (found) start.states = states_at(checkpoints, stages, durable, inputs.partition, cut_again);
  if (cut_again) {
    check_readouts_fit(inputs, start.states, where);
    // The record is what makes the new cut the valid one, so whatever lies there now is from a try that
    // failed.
    const std::filesystem::path target = folder.checkpoints(inputs.partition);
    std::filesystem::remove_all(target);
    for (std::uint64_t stage = 0; stage < start.states.size(); ++stage) {
      write_checkpoint(target, StageIndex{stage}, start.states[stage]);
    }
  }
  return start;
}

// -- The session
// ----------------------------------------------------------------------------------------------------

TrainingSession::TrainingSession(const TrainOptions& options, const TrainingInputs& inputs, RunFolder folder,
                                 StartingPoint start, std::string resume)
    : options_(options),
      inputs_(inputs),
      folder_(std::move(folder)),
      start_(std::move(start)),
      resume_(std::move(resume)),
      metrics_(folder_.metrics(),
               WindowIndex{start_.recovers ? start_.record.last_window : start_.first_window.value - 1}),
      trace_(folder_.trace(), inputs.partition.size(),
             std::chrono::duration<double>(start_.record.wall_seconds)),
      progress_(inputs.partition.size(), start_.first_window, WindowIndex{start_.record.last_window},
                ::isatty(STDERR_FILENO) == 1),
      restarts_(inputs.partition.size(), 0) {}

ClusterPlan TrainingSession::cluster_plan() const {
  ClusterPlan plan;
  plan.run_id = start_.record.run_id;
  plan.schedule = options_.schedule;
  plan.stages = inputs_.partition.size();
  plan.first_window = start_.first_window;
  plan.last_window = WindowIndex{start_.record.last_window};
  plan.depth = options_.depth;
  plan.buffer_bytes_max = options_.buffer_limit_mib * 1024 * 1024;
  plan.replay_batch = options_.replay_batch;
  plan.checkpoint_every = options_.checkpoint_every;
  plan.restarts_max = options_.restarts_max;
  plan.checkpoints = folder_.checkpoints(inputs_.partition);
  plan.resume_from = start_.states;
  plan.hang_after = std::chrono::milliseconds(std::llround(options_.hang_after_seconds * 1000));
  plan.calibrate = inputs_.needs_calibration && start_.states.empty();
  plan.journal = folder_.journal();
  plan.recovers = start_.recovers;
  plan.hosts_before = start_.hosts_before;
  plan.session = start_.recovers ? start_.recovers->session : new_session_name(start_.record.run_id);
  return plan;
}

ClusterObserver TrainingSession::observer() {
  ClusterObserver observer;
  observer.calibrated = [this](StageIndex stage) { progress_.calibrated(stage); };
  observer.window_committed = [this](const WindowReport& report) {
    metrics_.add(report);
    if (tensorboard_) tensorboard_->add(report);
    progress_.window_committed(report);
    if (evaluation_) evaluation_->window_committed(report);
  };
  observer.span = [this](const TraceSpan& span) { trace_.add(span); };
  observer.restarted = [this](StageIndex stage, Incarnation, const std::string& message) {
    ++restarts_.at(stage.value);
    spdlog::warn("{}", message);
  };
  return observer;
}

void TrainingSession::tidy_folder() const {
  if (start_.recovers) return;
  if (start_.journal_damaged) {
    std::filesystem::rename(folder_.journal(), folder_.path() / "journal.damaged");
  }
  const std::filesystem::path in_force = folder_.checkpoints(inputs_.partition);
  for (const StageIndex stage : checkpoint_stages(in_force)) {
    discard_checkpoints_after(in_force, stage, WindowIndex{start_.first_window.value - 1});
  }
  std::error_code error;
  for (const auto& other : std::filesystem::directory_iterator(in_force.parent_path(), error)) {
    if (other.path() != in_force) std::filesystem::remove_all(other.path(), error);
  }
}

int TrainingSession::run(const std::function<bool()>& stop_requested, const ClusterRunner& run_cluster) {
  folder_.write_record(start_.record);
  tidy_folder();
  if (inputs_.evaluation) {
    evaluation_ = std::make_unique<RunEvaluation>(options_, inputs_, folder_,
                                                  WindowIndex{start_.first_window.value - 1});
  }
  if (options_.tensorboard) {
    tensorboard_ = std::make_unique<TensorboardScalars>(folder_.tensorboard(), inputs_.partition.size(),
                                                        start_.first_window);
  }
  const auto stop = [this, &stop_requested] {
    return stop_requested() || (evaluation_ && evaluation_->stop_wanted());
  };
  const auto begin = std::chrono::steady_clock::now();
  const ClusterOutcome outcome = run_cluster(cluster_plan(), stop, observer());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress_.finish();
  stop_asked_for_ = stop_requested();
  write_results(outcome, seconds);
  write_report(folder_);
  return report(outcome);
}

void TrainingSession::write_results(const ClusterOutcome& outcome, double seconds) {
  using Kind = ClusterOutcome::Kind;
  RunRecord& record = start_.record;
  record.durable = outcome.durable.value;
  record.wall_seconds += seconds;
  for (std::size_t stage = 0; stage < restarts_.size(); ++stage) record.restarts[stage] += restarts_[stage];
  metrics_.finish();
  trace_.finish();
  if (outcome.kind == Kind::failed) {
    record.status = RunRecord::Status::failed;
    folder_.write_record(record);
    return;
  }
  record.status = outcome.kind == Kind::finished ? RunRecord::Status::finished : RunRecord::Status::stopped;
  SummaryFacts facts;
  facts.status = outcome.kind == Kind::finished ? "finished" : "stopped";
  if (evaluation_) {
    const bool early = outcome.kind == Kind::stopped && evaluation_->stop_wanted();
    if (early) facts.status = "stopped early";
    if (outcome.kind == Kind::finished) {
      evaluation_->finish(outcome);
    } else {
      evaluation_->finish();
    }
    facts.evaluation = evaluation_->summary();
  }
  facts.windows = outcome.durable.value;
  facts.wall_seconds = record.wall_seconds;
  facts.recipe = record.recipe;
  facts.partition = inputs_.partition;
  facts.restarts = record.restarts;
  std::vector<StageState> states;
  for (const StageOutcome& stage : outcome.stages) {
    states.push_back(stage.state);
    facts.incarnations.push_back(stage.incarnation.value);
    facts.peaks.push_back(stage.peaks);
    facts.process_bytes_peaks.push_back(stage.process_bytes_peak);
  }
  facts.adapter_sha256 =
      write_adapter_folder(folder_.adapter(), states, options_.settings.lora, *inputs_.model.files);
  summary_ = make_summary(facts, metrics_, start_.summary);
  write_text_file(folder_.summary(), summary_.dump(2) + "\n");
  folder_.write_record(record);  // last: it says that the rest is there
}

int TrainingSession::report(const ClusterOutcome& outcome) const {
  using Kind = ClusterOutcome::Kind;
  const std::string window = std::to_string(outcome.durable.value);
  const std::string going_on = resumes_exactly(options_.schedule)
                                   ? "everything up to window " + window + " is saved, go on with: " + resume_
                                   : "a " + std::string(to_string(options_.schedule)) + " run cannot go on";
  switch (outcome.kind) {
    case Kind::finished:
      return status_done;
    case Kind::stopped:
      if (evaluation_ && evaluation_->stop_wanted()) {
        spdlog::info("stopped early after window {}: {}; {}", window, evaluation_->standing(), going_on);
        return status_done;
      }
      spdlog::warn("stopped after window {}; {}", window, going_on);
      return status_interrupted;
    case Kind::failed:
      spdlog::error("training has paused: {}; {}", outcome.failure, going_on);
      return stop_asked_for_ ? status_interrupted : status_failed;
  }
  return status_failed;
}

}  // namespace zerolock
