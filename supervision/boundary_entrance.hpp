#pragma once
/// Who may come in at a process's listener for a boundary: decided on the network's thread, before a byte of
/// the run is taken from it.

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/remote/boundary_door.hpp"
#include "supervision/assignment.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// Thread-safe. Closed until a run opens it.
class BoundaryEntrance {
 public:
  /// `downstreams`: the node and the placement that each boundary is for.
  void open(const std::string& run_id, const BoundaryTerms& terms, const LinkProfile& link,
            std::map<StageIndex, Neighbour> downstreams, OpenBoundaryDoorActor door);
  /// From now on, that node and placement may cross the boundary, and no other.
  void admit(StageIndex boundary, const Neighbour& downstream);
  /// Lets nobody in any more, and lets go of the door.
  void close();

  /// For a hello whose purpose is a boundary.
  [[nodiscard]] HelloAnswer answer(const Hello& hello) const;
  void accepted(const std::shared_ptr<Connection>& connection, const Hello& hello) const;

 private:
  struct Run {
    std::string id;
    BoundaryTerms terms;
    LinkProfile link;
    std::map<StageIndex, Neighbour> downstreams;
    OpenBoundaryDoorActor door;
  };
  mutable std::mutex mutex_;
  std::optional<Run> run_;
};

/// What both ends of the boundary into a stage agree upon in such a run. All boundaries between stages have
/// the same terms; what the batch source embeds is never rounded, so that it makes no difference who embeds.
BoundaryTerms terms_of(const Assignment& assignment, StageIndex boundary);

/// How each process of a cluster listens. `run_id`: what a dialler is told; empty if that is not known yet.
ListenOptions listen_options(const Address& address, const Security& security, const std::string& token,
                             const NodeIdentity& own, const std::string& run_id);

/// The reason why a hello of another program or run is refused; empty if it is not. An empty run in the
/// hello, or in `run`, fits any.
std::string refusal_of(const Hello& hello, const std::string& run);

}  // namespace zerolock
