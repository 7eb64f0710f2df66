/// zerolock coordinator: the training job for executors that join over the network.

#include <spdlog/spdlog.h>

#include "apps/command/training_command.hpp"
#include "tensors/base/error.hpp"

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
    table.integer("executors", executors_, 1, 1024, "executors to wait for; otherwise one for each stage");
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
  ClusterRunner runner(const TrainingInputs& inputs, const RunFolder&, const RunRecord& record) override {
    if (listen_.empty()) throw InputError("--listen", "is required: HOST:PORT");
    NetworkOptions network;
    network.listen = parse_address(listen_, "--listen");
    network.executors = executors_.value_or(inputs.partition.size());
    if (options().wire_rounds() && network.executors < inputs.partition.size()) {
      throw InputError("--wire-type",
                       "rounds hidden states between executors alone, so that the result would depend on who "
                       "hosts which stage; give each stage its executor, or take compute");
    }
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
    return network_runner(options(), inputs, record.run_id, network);
  }

  [[nodiscard]] std::string resume_words() const override {
    if (cluster_.tls) return " --tls " + cluster_.tls->string();
    return cluster_.insecure ? " --insecure" : "";
  }
  /// A run that began on this machine may go on over the network.
  [[nodiscard]] bool takes_over_from(const std::string& command) const override { return command == "train"; }

 private:
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
};

}  // namespace

std::unique_ptr<Command> make_coordinator_command() {
  return std::make_unique<CoordinatorCommand>();
}

}  // namespace zerolock
