#pragma once
/// A run whose stages are in other processes: this one is the coordinator.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/deadlines.hpp"
#include "supervision/assignment.hpp"
#include "supervision/boundary_entrance.hpp"
#include "supervision/cluster_run.hpp"
#include "supervision/remote_executors.hpp"
#include "supervision/status_server.hpp"
#include "transport/network.hpp"
#include "transport/weights/weights_server.hpp"

namespace zerolock {

/// What every stage of the run has in common, in the terms of an Assignment.
struct RemoteRun {
  Assignment common;                  // hosted, upstreams and downstreams are filled in for each executor
  std::uint64_t executors = 1;        // to wait for
  PlannedPlaces places;               // of all stages; empty: places_on() those that have joined
  bool spread_anew = false;           // whoever had the stages before
  LinkProfile link;                   // of the batch source's entries
  std::uint64_t state_bytes_max = 0;  // of one stage's checkpoint; calibration targets must fit too
  std::chrono::milliseconds absence_limit = deadlines.executor_absence;  // of PlacementSetup
  std::chrono::milliseconds vacancy_limit = deadlines.stage_vacancy;     // the same
};

struct RemoteClusterOptions {
  Address listen;
  Security security = Security::plain();
  std::string token;  // shared with the executors; needed without TLS
  std::string name = "coordinator";
  std::string run_id;
  std::shared_ptr<WeightsServer> weights;        // for executors without the model; null: they must have it
  std::shared_ptr<StatusBoard> board;            // is told of the run, and shown; null: nobody may watch
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
};

/// Listens from its construction on, so that executors may be started with its address.
class RemoteCluster {
 public:
  /// Throws InputError if it cannot listen there.
  explicit RemoteCluster(RemoteClusterOptions options);
  ~RemoteCluster();

  [[nodiscard]] const Address& address() const { return listener_->address(); }
  /// Where executors reach it, if that is another address than it listens on; for the first stage's upstream.
  void set_public_address(const Address& address) { public_address_ = address; }

  /// An executor is known to be gone for good, for that cause. Thread-safe.
  void lost(const std::string& node, const std::string& cause);

  /// Orders a fault of the executor that has its stage. Returns why not, or nothing. Thread-safe.
  std::string inject(const Fault& fault);

  /// run_cluster on the executors that join. Blocks. Once.
  ClusterOutcome run(const ClusterPlan& plan, const RemoteRun& run,
                     const std::shared_ptr<const MicroBatchProvider>& batches, MemoryAccount& source_account,
                     const std::function<bool()>& stop_requested, const ClusterObserver& observer);

 private:
  RemoteExecutorsSetup executors_setup(const ClusterPlan& plan, const RemoteRun& run,
                                       const Neighbour& coordinator);
  HelloAnswer answer(const Hello& hello);
  void accepted(const std::shared_ptr<Connection>& connection, const Hello& hello);

  RemoteClusterOptions options_;
  Address public_address_;
  BoundaryEntrance entrance_;
  std::unique_ptr<StatusServer> status_;  // null: nobody may watch
  std::mutex mutex_;
  RemoteExecutorsActor executors_;       // while a run is on; under mutex_
  std::uint64_t payload_bytes_max_ = 0;  // the same
  std::uint64_t stages_ = 0;             // the same
  std::shared_ptr<Network> network_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace zerolock
