#pragma once
/// The whole system in one process, with the network of several machines imitated between its stages.

#include <cstdint>
#include <optional>

#include "actors/remote/imitated_link.hpp"
#include "supervision/local_cluster.hpp"

namespace zerolock {

/// What lies between each two stages that follow each other. Token ids reach the first stage at once.
struct ImitatedNetwork {
  LinkProfile profile;
  LinkSharing sharing = LinkSharing::way;
  std::optional<std::uint64_t> payload_bytes;  // as in ImitatedLinkSetup
};

/// run_local_cluster, over that network.
ClusterOutcome run_imitated_cluster(const ImitatedNetwork& network, const ClusterPlan& plan,
                                    std::shared_ptr<const MicroBatchProvider> batches,
                                    const BackendFactory& make_backend,
                                    std::vector<std::unique_ptr<MemoryAccount>>& accounts,
                                    const std::function<bool()>& stop_requested,
                                    const ClusterObserver& observer, FaultHook fault_hook = {});

}  // namespace zerolock
