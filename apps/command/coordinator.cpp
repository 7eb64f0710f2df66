/// zerolock coordinator: the training job for executors that join over the network.

#include <spdlog/spdlog.h>

#include <sstream>

#include "apps/command/cluster_partition.hpp"
#include "apps/command/interrupt_watch.hpp"
#include "apps/command/training_command.hpp"
#include "supervision/executor_roll_call.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

class CoordinatorCommand : public TrainingCommand {
 public:
  [[nodiscard]] const char* name() const override { return "coordinator"; }
  [[nodiscard]] const char* summary() const override {
    return "fine-tune a model on executors that join over the network";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock coordinator --listen 0.0.0.0:7400 --tls certificates --executors 3 "
           "--model SmolLM2-135M-Instruct.Q4_1.gguf --data topics.csv --out runs/topics --stages 3";
  }

  void declare(OptionTable& table) override {
    using Kept = OptionTable::Kept;
    TrainingCommand::declare(table);
    table.text("listen", listen_, "HOST:PORT where executors join");
    table.integer(
        "executors", executors_, 1, 1024,
        "executors to wait for, spares not counted; without --stages and --layers the layers are cut for "
        "what these can do; otherwise one for each stage");
    table.path("tls", cluster_.tls, "folder with certificates, made by zerolock certs",
               Kept::on_command_line_only);
    table.flag("insecure", cluster_.insecure, "allow plain connections beyond this machine",
               Kept::on_command_line_only);
    table.integer("absence-limit", absence_seconds_, 1, 86'400,
                  "seconds that an executor may be out of reach before its stages go to another");
    table.integer("vacancy-limit", vacancy_seconds_, 1, 86'400,
                  "seconds that stages without an executor wait for one before the run pauses");
    table.text("metrics", metrics_,
               "HOST:PORT (IPv4) for Prometheus; anybody may read it, so loopback only unless --insecure");
    cluster_.declare_token(table);
  }

 protected:
  void prepare(TrainOptions& options) override {
    plans_ = !options.stages && options.layers.empty();
    if (!plans_) return;
    if (!executors_) {
      throw InputError("--executors",
                       "is required without --stages and --layers: the layers are cut for so many");
    }
    options.stages = *executors_;
  }

  bool settle_partition(TrainOptions& options, const TrainingSources& sources) override {
    if (!plans_) return true;
    check_folder(options, sources);
    NetworkOptions network = network_options();
    RollCallOptions awaited;
    awaited.listen = network.listen;
    awaited.security = network.security;
    awaited.token = network.token;
    awaited.name = network.name;
    awaited.executors = *executors_;
    awaited.note = [](const std::string& line) { spdlog::info("{}", line); };
    roll_call_ = std::make_unique<ExecutorRollCall>(std::move(awaited));
    spdlog::info("waiting at {} for {} executors, to cut the layers for what they can do",
                 roll_call_->address().text(), *executors_);
    const auto cards = [this] {
      const InterruptWatch interrupts([] {});
      return roll_call_->wait([&interrupts] { return interrupts.requested(); });
    }();
    if (!cards) {
      spdlog::warn("stopped before the executors had joined");
      return false;
    }
    const ClusterPartition partition = partition_for(make_plan_inputs(options, sources, *executors_, true),
                                                     *cards, require_fast_sgemm() * 1e9);
    std::istringstream lines(partition.text);
    for (std::string line; std::getline(lines, line);) spdlog::info("{}", line);
    options.stages.reset();
    options.layers = partition.layers;
    network.places = partition.places;
    network.executors = partition.places.size();
    network.listen = roll_call_->address();
    network_ = std::move(network);
    return true;
  }

  ClusterRunner runner(const TrainingInputs& inputs, const RunFolder&, const RunRecord& record) override {
    NetworkOptions network = network_ ? *network_ : network_options();
    if (!network_) network.executors = executors_.value_or(inputs.partition.size());
    network.spread_anew = on_command_line("executors");
    if (options().wire_rounds() && network.executors < inputs.partition.size()) {
      throw InputError("--wire-type",
                       "rounds hidden states between executors alone, so that the result would depend on who "
                       "hosts which stage; give each stage its executor, or take compute");
    }
    roll_call_.reset();  // its executors come again, to where the run now is
    return network_runner(options(), inputs, record.run_id, network);
  }

  [[nodiscard]] std::string resume_words() const override {
    if (cluster_.tls) return " --tls " + cluster_.tls->string();
    return cluster_.insecure ? " --insecure" : "";
  }
  /// A run that began on this machine may go on over the network.
  [[nodiscard]] bool takes_over_from(const std::string& command) const override { return command == "train"; }

 private:
  /// Nobody is waited for in vain. How much room the run takes is known later.
  static void check_folder(const TrainOptions& options, const TrainingSources& sources) {
    RunRecord planned;
    planned.settings = options.deciding_settings();
    planned.model_hash = sources.model.files->content_hash();
    planned.data_hash = sources.dataset->content_hash;
    RunFolder(*options.out).check_free(planned, 0);
  }

  /// All but the executors.
  [[nodiscard]] NetworkOptions network_options() const {
    if (listen_.empty()) throw InputError("--listen", "is required: HOST:PORT");
    NetworkOptions network;
    network.listen = parse_address(listen_, "--listen");
    network.security = cluster_.security(NodeRole::coordinator, "");
    if (network.security.identity()) network.name = network.security.identity()->name;
    network.token = cluster_.shared_token();
    network.metrics = metrics_address();
    network.link = parse_link_profile(options().link, "--link");
    network.absence_limit = std::chrono::seconds(absence_seconds_);
    network.vacancy_limit = std::chrono::seconds(vacancy_seconds_);
    if (!network.security.is_tls() && network.token.empty()) {
      network.token = new_token();
      spdlog::info("executors join with --token {}", network.token);
    }
    return network;
  }

  /// Nobody who asks for metrics proves who he is.
  [[nodiscard]] std::optional<Address> metrics_address() const {
    if (metrics_.empty()) return std::nullopt;
    const Address address = parse_address(metrics_, "--metrics");
    if (!cluster_.insecure && !is_loopback(address)) {
      throw InputError("--metrics", address.text() +
                                        " can be asked by others without proof of who they are; loopback "
                                        "addresses only, or --insecure");
    }
    return address;
  }

  std::string listen_;
  std::string metrics_;
  std::uint64_t absence_seconds_ = 15;
  std::uint64_t vacancy_seconds_ = 60;
  std::optional<std::uint64_t> executors_;
  ClusterOptions cluster_;

  bool plans_ = false;                           // the layers are cut for the executors that join
  std::optional<NetworkOptions> network_;        // with their places, once that is done
  std::unique_ptr<ExecutorRollCall> roll_call_;  // until the run listens itself
};

}  // namespace

std::unique_ptr<Command> make_coordinator_command() {
  return std::make_unique<CoordinatorCommand>();
}

}  // namespace zerolock
