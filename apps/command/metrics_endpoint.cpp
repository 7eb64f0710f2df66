#include "apps/command/metrics_endpoint.hpp"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// Adds a value of a counter or gauge, with a label unless its name is empty.
void add(MetricFamily& family, double value, const std::string& label = "", const std::string& of = "") {
  ClientMetric& metric = family.metric.emplace_back();
  if (!label.empty()) metric.label.push_back({label, of});
  if (family.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void add_queues(MetricFamily& family, const StageQueues& queues) {
  const std::pair<const char*, std::uint64_t> values[] = {{"inbound_waiting", queues.inbound_waiting},
                                                          {"inbound_held", queues.inbound_held},
                                                          {"outbound_unsent", queues.outbound_unsent},
                                                          {"outbound_held", queues.outbound_held}};
  for (const auto& [name, value] : values) {
    add(family, static_cast<double>(value), "stage", std::to_string(queues.stage.value));
    family.metric.back().label.push_back({"queue", name});
  }
}

std::vector<MetricFamily> metrics_of(const RunStatus& status) {
  MetricFamily window{"zerolock_window", "Last window that the stage has trained", MetricType::Gauge, {}};
  MetricFamily loss{"zerolock_task_loss", "Task loss of that window", MetricType::Gauge, {}};
  MetricFamily restarts{"zerolock_restarts_total", "Restarts of the stage", MetricType::Counter, {}};
  MetricFamily queues{"zerolock_queue_micro_batches",
                      "Micro-batches that stand in the stage's buffers",
                      MetricType::Gauge,
                      {}};
  MetricFamily examples{"zerolock_examples_total", "Examples trained on", MetricType::Counter, {}};
  MetricFamily executors{"zerolock_executors", "Executors in that state", MetricType::Gauge, {}};
  for (const StageStatus& stage : status.stages) {
    const std::string number = std::to_string(stage.stage.value);
    add(window, static_cast<double>(stage.committed.value), "stage", number);
    add(restarts, static_cast<double>(stage.restarts), "stage", number);
    if (stage.task_loss) add(loss, *stage.task_loss, "stage", number);
    if (stage.queues) add_queues(queues, *stage.queues);
  }
  add(examples, static_cast<double>(status.examples));
  for (const ExecutorState state : executor_states) {
    const auto count = std::count_if(status.executors.begin(), status.executors.end(),
                                     [state](const ExecutorStatus& each) { return each.state == state; });
    add(executors, static_cast<double>(count), "state", to_string(state));
  }
  return {window, loss, restarts, queues, examples, executors};
}

class RunMetrics : public prometheus::Collectable {
 public:
  explicit RunMetrics(std::shared_ptr<const StatusBoard> board) : board_(std::move(board)) {}
  [[nodiscard]] std::vector<MetricFamily> Collect() const override { return metrics_of(board_->status()); }

 private:
  std::shared_ptr<const StatusBoard> board_;
};

std::unique_ptr<prometheus::Exposer> exposer(const Address& address) {
  try {
    return std::make_unique<prometheus::Exposer>(address.text());
  } catch (const std::exception&) {
    // The library does not say more. Debian builds its server without IPv6.
    throw InputError("--metrics", "cannot listen on " + address.text() +
                                      "; is it an IPv4 address of this machine, and its port free?");
  }
}

}  // namespace

class MetricsEndpoint::Implementation {
 public:
  Implementation(Address listen, std::shared_ptr<const StatusBoard> board)
      : address(std::move(listen)),
        metrics(std::make_shared<RunMetrics>(std::move(board))),
        server(exposer(address)) {
    server->RegisterCollectable(metrics);
    const std::vector<int> ports = server->GetListeningPorts();
    if (!ports.empty()) address.port = static_cast<std::uint16_t>(ports.front());
  }

  Address address;
  std::shared_ptr<RunMetrics> metrics;
  std::unique_ptr<prometheus::Exposer> server;
};

MetricsEndpoint::MetricsEndpoint(const Address& address, std::shared_ptr<const StatusBoard> board)
    : implementation_(std::make_unique<Implementation>(address, std::move(board))) {}

MetricsEndpoint::~MetricsEndpoint() = default;

Address MetricsEndpoint::address() const {
  return implementation_->address;
}

}  // namespace zerolock
