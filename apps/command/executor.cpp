/// zerolock executor: one device of a cluster. Joins a coordinator and runs the stages that it is given.

#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "apps/command/cache_folder.hpp"
#include "apps/command/cluster_options.hpp"
#include "apps/command/command.hpp"
#include "apps/command/interrupt_watch.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/quantity.hpp"
#include "apps/command/random_model.hpp"
#include "apps/command/traffic_file.hpp"
#include "supervision/executor_run.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/planning/partitioner.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tensors/training/simulated_backend.hpp"
#include "transport/weights/model_fetch.hpp"

namespace zerolock {

namespace {

class ExecutorCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "executor"; }
  [[nodiscard]] const char* summary() const override { return "join a cluster as one of its devices"; }
  [[nodiscard]] const char* example() const override {
    return "zerolock executor --join 192.168.1.10:7400 --tls certificates";
  }

  void declare(OptionTable& table) override {
    table.text("join", join_, "the coordinator's HOST:PORT");
    table.text("name", name_, "of this node, as its certificate says; otherwise the host's name");
    table.model("model", model_, "the model, if it is here; otherwise what is needed is fetched and cached");
    table.path("cache", cache_, "folder for fetched weights; otherwise $ZEROLOCK_CACHE or ~/.cache/zerolock");
    table.path("work", work_, "folder for this executor's checkpoints; otherwise below the cache");
    table.text("listen", listen_,
               "HOST:PORT for downstream stages; otherwise any port of the address that reaches --join");
    table.text("memory-limit", memory_limit_, "what its stages may use, as in 4GiB; told to the coordinator");
    table.real("gflops", gflops_, {0, 1e9, true},
               "fp32 products of one core, told to the coordinator; otherwise measured at the start");
    table.flag("spare", spare_, "stand by: take stages only when another executor has lost them");
    table.integer("threads", threads_, 1, 1024,
                  "compute threads of each stage; with more than 1 the adapter's bits may be others");
    table.text("device", device_, "what its stages compute on: cpu");
    table.flag("model-unchecked", model_unchecked_, "trust --model to be the coordinator's, unread");
    table.path("traffic", traffic_,
               "file to append a line of JSON to for each entry and state that comes in or is copied");
    table.flag("end-with-parent", end_with_parent_, "end when the process that started this one does");
    cluster_.declare(table);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    if (end_with_parent_) follow_parent();
    block_interrupts();
    start_log(log_);
    prepare_compute();
    check_device();
    if (join_.empty()) throw InputError("--join", "is required: the coordinator's HOST:PORT");
    const InterruptWatch interrupts(
        [] { spdlog::warn("leaving the cluster; interrupt again to stop at once"); });
    ExecutorPlan plan = this->plan();
    plan.stop_requested = [&interrupts] { return interrupts.requested(); };
    plan.card.gigaflops = core_gigaflops(plan.card.threads) * static_cast<double>(plan.card.cores);
    ExecutorEnd end = run_executor(plan);
    while (end.rejoin && !interrupts.requested()) {
      spdlog::warn("{}; joining again without stages", end.failure);
      end = run_executor(plan);
    }
    if (end.bad_input) throw InputError(end.failure);
    if (end.finished) return status_done;
    spdlog::error("{}", end.failure);
    return interrupts.requested() ? status_interrupted : status_failed;
  }

 private:
  /// Of each of the cores that compute a stage together.
  [[nodiscard]] double core_gigaflops(std::uint64_t threads) const {
    const double alone = require_fast_sgemm();
    if (gflops_) return *gflops_;
    if (threads == 1) return alone;
    return measure_sgemm_gflops(static_cast<int>(threads)) / static_cast<double>(threads);
  }

  void check_device() const {
    if (device_ == "cpu") return;
    const bool is_cuda = device_ == "cuda" || device_.rfind("cuda:", 0) == 0;
    throw InputError("--device", "'" + device_ + "' " +
                                     (is_cuda ? "is not to be had: this build has no CUDA" : "is no device") +
                                     "; allowed: cpu");
  }

  static void follow_parent() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) std::raise(SIGKILL);  // it was gone before
  }

  [[nodiscard]] ExecutorPlan plan() const {
    ExecutorPlan plan;
    plan.name = name_.empty() ? host_name() : name_;
    if (!is_node_name(plan.name)) {
      throw InputError("--name", "'" + plan.name + "' is no name of a node: 1 to 64 letters, digits and -_.");
    }
    plan.coordinator = parse_address(join_, "--join");
    plan.security = cluster_.security(NodeRole::executor, name_);
    if (plan.security.identity()) plan.name = plan.security.identity()->name;
    plan.token = cluster_.shared_token();
    plan.link = cluster_.link_profile();
    plan.listen = listen_.empty() ? Address{host_towards(plan.coordinator, "--join"), 0}
                                  : parse_address(listen_, "--listen");
    plan.card.cores = std::max(1u, std::thread::hardware_concurrency());
    plan.card.memory_bytes =
        memory_limit_.empty() ? 0 : static_cast<std::uint64_t>(parse_bytes(memory_limit_, "--memory-limit"));
    plan.card.link_bytes_per_second = plan.link.bytes_per_second;
    plan.card.spare = spare_;
    plan.card.threads = std::min(threads_, plan.card.cores);
    plan.work = work_ ? *work_ : cache() / "executors" / plan.name;
    DialOptions dial;
    dial.address = plan.coordinator;
    dial.security = plan.security;
    dial.hello.node = {NodeRole::executor, plan.name};
    dial.hello.program_version = program_version;
    dial.hello.purpose = ConnectionPurpose::weights;
    dial.hello.token = plan.token;
    dial.peer = {NodeRole::coordinator, std::nullopt};
    plan.prepare = [this, dial](const Preparation& preparation) { return backends(preparation, dial); };
    plan.note = [](const std::string& line) { spdlog::info("{}", line); };
    plan.note_fault = [](const std::string& line) { spdlog::warn("{}", line); };
    if (traffic_) {
      plan.watch = [file = std::make_shared<TrafficFile>(*traffic_)](const TrafficItem& item) {
        file->add(item);
      };
    }
    plan.abandon = [](const ExecutorEnd& end) {
      spdlog::error("{}", end.failure);
      spdlog::shutdown();
      std::_Exit(status_failed);
    };
    return plan;
  }

  /// The model, opened once for all stages that this executor hosts.
  [[nodiscard]] BackendFactory backends(const Preparation& preparation, const DialOptions& dial) const {
    const Assignment& assignment = preparation.assignment;
    if (assignment.simulated) {
      return [compute = *assignment.simulated, width = assignment.width](StageIndex stage, MemoryAccount&) {
        return make_simulated_backend(stage, width, compute);
      };
    }
    const std::shared_ptr<const ModelFiles> files =
        model_ ? local_model(assignment) : fetched_model(preparation, dial);
    if (!files) throw RunError("the executor leaves before it has the model");
    return [files, partition = assignment.partition, settings = assignment.settings,
            threads = static_cast<int>(threads_)](StageIndex stage, MemoryAccount& account) {
      at::set_num_threads(threads);  // holds for the stage's own thread
      return make_chunk_backend(files, stage, partition, settings, account);
    };
  }

  [[nodiscard]] std::shared_ptr<const ModelFiles> local_model(const Assignment& assignment) const {
    auto files = ModelFiles::open(model_location(*model_));
    if (!model_unchecked_ && files->content_hash() != assignment.model_hash) {
      throw InputError(model_->string(), "is not the coordinator's model: its hash is " +
                                             files->content_hash() + ", the run's " + assignment.model_hash);
    }
    return files;
  }

  [[nodiscard]] std::shared_ptr<const ModelFiles> fetched_model(const Preparation& preparation,
                                                                const DialOptions& dial) const {
    const Assignment& assignment = preparation.assignment;
    ModelFetchOptions fetch;
    fetch.dial = dial;
    fetch.dial.hello.run = assignment.run_id;
    for (const StageIndex stage : assignment.hosted) {
      fetch.layers.push_back(assignment.partition[stage.value]);
      fetch.embeds = fetch.embeds || assignment.settings.embeds(stage);
    }
    fetch.cache = cache() / "models";
    ModelFetchEvents events;
    events.stop_requested = preparation.give_up;
    events.progress = [told = std::optional<std::uint64_t>{}](std::uint64_t done, std::uint64_t all) mutable {
      // At the start and at the end; of more than a few MiB at each tenth as well.
      const std::uint64_t steps = std::clamp<std::uint64_t>(all >> 20U, 1, 10);
      const std::uint64_t step = all == 0 ? steps : done * steps / all;
      if (std::exchange(told, step) == step) return;
      spdlog::info("weights: {} of {} are here", bytes_text(static_cast<std::int64_t>(done)),
                   bytes_text(static_cast<std::int64_t>(all)));
    };
    return fetch_model(preparation.network, std::move(fetch), std::move(events));
  }

  [[nodiscard]] std::filesystem::path cache() const {
    if (cache_) return *cache_;
    const auto folder = cache_folder();
    if (!folder) throw InputError("--cache", "is required where there is no home folder");
    return *folder;
  }

  static std::string host_name() {
    char name[HOST_NAME_MAX + 1] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return "executor";
    return name;
  }

  std::string join_;
  std::string name_;
  std::optional<std::filesystem::path> model_;
  std::optional<std::filesystem::path> cache_;
  std::optional<std::filesystem::path> work_;
  std::string listen_;
  std::string memory_limit_;
  std::optional<std::filesystem::path> traffic_;
  std::optional<double> gflops_;
  bool spare_ = false;
  std::uint64_t threads_ = 1;
  std::string device_ = "cpu";
  bool model_unchecked_ = false;
  bool end_with_parent_ = false;
  ClusterOptions cluster_;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_executor_command() {
  return std::make_unique<ExecutorCommand>();
}

}  // namespace zerolock
