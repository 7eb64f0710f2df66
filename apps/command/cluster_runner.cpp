#include "apps/command/cluster_runner.hpp"

#include <spdlog/spdlog.h>

#include <mutex>
#include <optional>

#include "apps/command/child_processes.hpp"
#include "apps/command/control_file.hpp"
#include "apps/command/fault_list.hpp"
#include "apps/command/metrics_endpoint.hpp"
#include "supervision/fault_injector.hpp"
#include "supervision/local_cluster.hpp"
#include "supervision/remote_cluster.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t slack_bytes = std::uint64_t{16} << 20U;

void log_note(const std::string& line) {
  spdlog::info("{}", line);
}

/// What all executors are told, in the terms of an assignment.
RemoteRun remote_run(const TrainOptions& options, const TrainingInputs& inputs, const ClusterPlan& plan,
                     std::uint64_t executors, const LinkProfile& link, const std::vector<Fault>& faults) {
  const ModelConfig& model = inputs.model.files->config();
  RemoteRun run;
  run.executors = executors;
  run.link = link;
  const auto width = static_cast<std::uint64_t>(model.width);
  // Adapter, both moments and a calibrated readout of one stage at most; or a calibration's targets.
  run.state_bytes_max =
      3 * inputs.state_bytes + 2 * width * width * sizeof(float) +
      static_cast<std::uint64_t>(inputs.settings.calibration_rows_max) * width * sizeof(double) + slack_bytes;
  Assignment& common = run.common;
  common.run_id = plan.run_id;
  common.partition = inputs.partition;
  common.settings = inputs.settings;
  common.first_window = plan.first_window;
  common.last_window = plan.last_window;
  common.calibrates = calibrates(plan);
  common.resumed = !plan.resume_from.empty();
  const auto batches = inputs.batches;
  common.micro_batches = MicroBatchCounts(
      [batches](WindowIndex window) { return batches->micro_batches(window); }, batches->last_window());
  common.checkpoint_every = plan.checkpoint_every;
  common.restarts_max = plan.restarts_max;
  common.hang_after_milliseconds = static_cast<std::uint64_t>(plan.hang_after.count());
  common.faults = faults;
  common.restart_seconds = static_cast<std::uint64_t>(plan.restart_period.count());
  common.depth = plan.depth;
  common.buffer_bytes_max = plan.buffer_bytes_max;
  common.replay_batch = plan.replay_batch;
  common.rows_max = static_cast<std::int64_t>(options.batch * options.rows.sequence_length);
  common.sequences_max = static_cast<std::int64_t>(options.batch);
  common.width = model.width;
  common.vocabulary = model.vocabulary;
  common.wire_type = to_string(options.hidden_state_wire_type());
  common.model_hash = inputs.model.files->content_hash();
  return run;
}

std::string stage_name(std::uint64_t stage) {
  const std::string number = std::to_string(stage);
  return "stage-" + std::string(number.size() < 4 ? 4 - number.size() : 0, '0') + number;
}

/// The command line of the executor that runs a stage on this machine.
std::vector<std::string> executor_command(const std::filesystem::path& model, const RunFolder& folder,
                                          const Address& coordinator, const std::string& name,
                                          const std::string& link) {
  return {"executor",
          "--join",
          coordinator.text(),
          "--name",
          name,
          "--model",
          model.string(),
          "--model-unchecked",
          "--end-with-parent",
          "--work",
          (folder.path() / "executors" / name).string(),
          "--link",
          link,
          "--log-level",
          "warn"};
}

std::vector<Fault> faults_of(const TrainOptions& options, const TrainingInputs& inputs) {
  if (!options.faults) return {};
  return read_faults(*options.faults, inputs.partition.size());
}

/// What the stages' threads use; left to them where one hangs.
struct LentToThreads {
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  std::optional<FaultInjector> injector;
};

}  // namespace

ClusterRunner thread_runner(const TrainOptions& options, const TrainingInputs& inputs) {
  return [&inputs, faults = faults_of(options, inputs)](
             const ClusterPlan& plan, const std::function<bool()>& stop, const ClusterObserver& observer) {
    auto lent = std::make_unique<LentToThreads>();
    for (std::uint64_t stage = 0; stage < plan.stages; ++stage) {
      lent->accounts.push_back(std::make_unique<MemoryAccount>());
    }
    FaultHook hook;
    if (!faults.empty()) {
      FaultTargets targets;
      targets.checkpoints = plan.checkpoints;
      targets.note = [](const std::string& line) { spdlog::warn("{}", line); };
      lent->injector.emplace(faults, std::move(targets));
      hook = lent->injector->hook();
    }
    ClusterOutcome outcome = run_local_cluster(plan, inputs.batches, inputs.backend_factory(), lent->accounts,
                                               stop, observer, hook);
    if (outcome.hangs) static_cast<void>(lent.release());
    return outcome;
  };
}

ClusterRunner process_runner(const TrainOptions& options, const TrainingInputs& inputs,
                             const RunFolder& folder, const LinkProfile& link) {
  options.require_own_losses("stages in processes of their own");
  return [&options, &inputs, &folder, link, faults = faults_of(options, inputs)](
             const ClusterPlan& plan, const std::function<bool()>& stop, const ClusterObserver& observer) {
    RemoteClusterOptions cluster_options;
    cluster_options.listen = {"127.0.0.1", 0};
    cluster_options.token = new_token();
    cluster_options.run_id = plan.run_id;
    cluster_options.note = [](const std::string& line) { spdlog::info("{}", line); };
    cluster_options.board =
        std::make_shared<StatusBoard>(plan.run_id, inputs.partition, plan.last_window, plan.stages);
    RemoteCluster cluster(cluster_options);
    const ControlFile reached(folder.control(), {cluster.address(), cluster_options.token});
    spdlog::info("watch it with: zerolock status --run {}", folder.path().string());
    MemoryAccount source_account;
    // Whoever is started again gets its stage back, unless the run has come to its end meanwhile.
    ChildProcesses executors([&cluster](const std::string& name, const std::string& end) {
      cluster.lost(name, "the process of executor " + name + " " + end);
      return true;
    });
    for (std::uint64_t stage = 0; stage < plan.stages; ++stage) {
      const std::string name = stage_name(stage);
      executors.start(
          name,
          executor_command(inputs.model.files->path(), folder, cluster.address(), name, to_string(link)),
          {{token_variable, cluster_options.token}});
    }
    const ClusterOutcome outcome =
        cluster.run(plan, remote_run(options, inputs, plan, plan.stages, link, faults), inputs.batches,
                    source_account, stop, observer);
    executors.finish();
    std::error_code ignored;
    std::filesystem::remove_all(folder.path() / "executors", ignored);
    return outcome;
  };
}

ClusterRunner network_runner(const TrainOptions& options, const TrainingInputs& inputs,
                             const std::string& run_id, const NetworkOptions& network) {
  options.require_own_losses("stages on executors");
  RemoteClusterOptions cluster_options;
  cluster_options.listen = network.listen;
  cluster_options.security = network.security;
  cluster_options.name = network.name;
  cluster_options.token = network.token;
  cluster_options.run_id = run_id;
  cluster_options.note = log_note;
  cluster_options.weights = std::make_shared<WeightsServer>(inputs.model.files);
  cluster_options.board = std::make_shared<StatusBoard>(run_id, inputs.partition,
                                                        inputs.batches->last_window(), network.executors);
  std::shared_ptr<const MetricsEndpoint> metrics;
  if (network.metrics) {
    metrics = std::make_shared<MetricsEndpoint>(*network.metrics, cluster_options.board);
    spdlog::info("metrics at http://{}/metrics", metrics->address().text());
  }
  const auto cluster = std::make_shared<RemoteCluster>(cluster_options);
  if (network.places.empty()) {
    spdlog::info("waiting at {} for {} executors", cluster->address().text(), network.executors);
  }
  return [&options, &inputs, network, cluster, metrics, faults = faults_of(options, inputs)](
             const ClusterPlan& plan, const std::function<bool()>& stop, const ClusterObserver& observer) {
    MemoryAccount source_account;
    RemoteRun run = remote_run(options, inputs, plan, network.executors, network.link, faults);
    run.places = network.places;
    run.spread_anew = network.spread_anew;
    run.absence_limit = network.absence_limit;
    run.vacancy_limit = network.vacancy_limit;
    return cluster->run(plan, run, inputs.batches, source_account, stop, observer);
  };
}

}  // namespace zerolock
