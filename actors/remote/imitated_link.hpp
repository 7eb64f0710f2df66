#pragma once
/// The way between two stages of one process, slowed down as a network between two machines would be. For
/// experiments: nothing is framed or sent, entries and gradients arrive later by reference.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "actors/protocol.hpp"
#include "transport/link_profile.hpp"

namespace zerolock {

/// Which ways out of stages share one rate.
enum class LinkSharing : std::uint8_t {
  way,    // none: each direction of each boundary has its own, as connections between processes have
  stage,  // hidden states to the next stage and gradients to the one before leave by one interface
  both,   // the two directions of a boundary, as on a radio channel where only one side speaks at a time
};
/// As the command line names it: per-way, per-stage, half-duplex.
std::string_view to_string(LinkSharing sharing);

/// A link's sending side. The latency is one-way.
class LinkQueue {
 public:
  using TimePoint = LinkSchedule::TimePoint;

  explicit LinkQueue(const LinkProfile& profile) : schedule_(profile) {}
  /// When something that is ready at `ready` arrives, after all that was queued before. Thread-safe.
  TimePoint transmit(TimePoint ready, std::size_t bytes);

 private:
  std::mutex mutex_;
  LinkSchedule schedule_;
};

/// The queues of one boundary; the same queue where directions share a rate.
struct BoundaryQueues {
  std::shared_ptr<LinkQueue> hidden_states;
  std::shared_ptr<LinkQueue> gradients;
};
/// Those of boundaries 1 to stages - 1, in order.
std::vector<BoundaryQueues> boundary_queues(const LinkProfile& profile, LinkSharing sharing,
                                            std::uint64_t stages);

struct ImitatedLinkSetup {
  LinkProfile profile;
  BoundaryQueues queues;
  /// What an entry and a gradient weigh; unless given, as much as their payload. For stages whose compute is
  /// simulated.
  std::optional<std::uint64_t> payload_bytes;
};

/// The downstream's upstream and the upstream's downstream. `connect` names the upstream, before the
/// downstream hears of a session. Credits arrive a latency later and take no room, since they are small and
/// go before entries; the opening of a session costs nothing.
using ImitatedLinkActor = UpstreamActor::extend<caf::reacts_to<connect_atom, UpstreamActor>,
                                                caf::reacts_to<entry_atom, std::uint64_t, Entry>,
                                                caf::reacts_to<blocked_atom, BatchPosition, std::uint64_t>,
                                                caf::reacts_to<gradient_atom, OutputGradient>>;

ImitatedLinkActor spawn_imitated_link(caf::local_actor& parent, ImitatedLinkSetup setup);

}  // namespace zerolock
