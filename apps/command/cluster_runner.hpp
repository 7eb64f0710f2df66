#pragma once
/// Where the stages of a training run are: threads here, processes here, or executors of a network.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/command/cluster_options.hpp"
#include "apps/command/run_folder.hpp"
#include "apps/command/train_options.hpp"
#include "apps/command/training_inputs.hpp"
#include "supervision/cluster_plan.hpp"
#include "supervision/stage_places.hpp"
#include "transport/address.hpp"

namespace zerolock {

/// Runs a plan to its outcome; blocks.
using ClusterRunner = std::function<ClusterOutcome(const ClusterPlan&, const std::function<bool()>& stop,
                                                   const ClusterObserver&)>;

/// All stages as threads of this process. Options and inputs must outlive the runner, here and below; and
/// after an outcome that hangs, the process.
ClusterRunner thread_runner(const TrainOptions& options, const TrainingInputs& inputs);

/// One process of this program for each stage, started and ended with the run, over loopback.
ClusterRunner process_runner(const TrainOptions& options, const TrainingInputs& inputs,
                             const RunFolder& folder, const LinkProfile& link);

struct NetworkOptions {
  Address listen;
  std::optional<std::string> public_host;
  std::uint64_t executors = 1;  // to wait for
  PlannedPlaces places;         // who gets which stages; empty: who had them, else in the order of names
  bool spread_anew = false;     // who had them does not count
  Security security = Security::plain();
  std::string name = "coordinator";
  std::string token;
  LinkProfile link;
  std::optional<Address> metrics;          // where Prometheus may ask
  std::chrono::seconds absence_limit{15};  // PlacementSetup::absence_max and vacancy_max
  std::chrono::seconds vacancy_limit{60};
};
/// Executors that join over the network. Listens at once: throws InputError if it cannot.
ClusterRunner network_runner(const TrainOptions& options, const TrainingInputs& inputs,
                             const std::string& run_id, const NetworkOptions& network);

}  // namespace zerolock
