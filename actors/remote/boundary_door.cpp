#include "actors/remote/boundary_door.hpp"

#include <map>

#include "actors/failure.hpp"
#include "actors/remote/outbound_link.hpp"

namespace zerolock {
namespace {

class BoundaryDoor final : public OpenBoundaryDoorActor::base {
 public:
  BoundaryDoor(caf::actor_config& config, caf::actor_addr parent, const BoundaryTerms& terms)
      : OpenBoundaryDoorActor::base(config), terms_(terms) {
    contain_failures(this);
    monitor(parent);
    set_down_handler([this, parent](caf::down_msg& down) {
      if (down.source == parent) quit(caf::exit_reason::user_shutdown);
      for (auto& [boundary, way] : ways_) {
        if (way.link && way.link.address() == down.source) way.link = nullptr;
      }
    });
  }

  [[nodiscard]] const char* name() const override { return "boundary door"; }

  behavior_type make_behavior() override {
    return {[this](ports_atom, StageIndex boundary, const UpstreamActor& upstream) {
              ways_[boundary].upstream = upstream;
            },
            [this](accept_atom, StageIndex boundary, const AcceptedConnection& accepted) {
              let_in(boundary, accepted.connection);
            }};
  }

  void on_exit() override { ways_.clear(); }

 private:
  struct Way {
    UpstreamActor upstream;
    OutboundLinkActor link;  // of the latest downstream; nobody else keeps it alive before it has said hello
  };

  void let_in(StageIndex boundary, const std::shared_ptr<Connection>& connection) {
    const auto way = ways_.find(boundary);
    if (way == ways_.end()) {
      connection->close("nothing sends across boundary " + std::to_string(boundary.value) + " here yet");
      return;
    }
    if (way->second.link) send(way->second.link, stop_atom::value);
    way->second.link = spawn_outbound_link(*this, {connection, way->second.upstream, terms_});
  }

  BoundaryTerms terms_;
  std::map<StageIndex, Way> ways_;
};

}  // namespace

OpenBoundaryDoorActor spawn_boundary_door(caf::local_actor& parent, const BoundaryTerms& terms) {
  return parent.spawn<BoundaryDoor, caf::monitored>(parent.address(), terms);
}

}  // namespace zerolock
