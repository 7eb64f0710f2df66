#include "supervision/boundary_entrance.hpp"

#include <utility>

#include "supervision/cluster_plan.hpp"

namespace zerolock {

void BoundaryEntrance::open(const std::string& run_id, const BoundaryTerms& terms, const LinkProfile& link,
                            std::map<StageIndex, Neighbour> downstreams, OpenBoundaryDoorActor door) {
  const std::lock_guard lock(mutex_);
  run_ = Run{run_id, terms, link, std::move(downstreams), std::move(door)};
}

void BoundaryEntrance::admit(StageIndex boundary, const Neighbour& downstream) {
  const std::lock_guard lock(mutex_);
  if (run_) run_->downstreams[boundary] = downstream;
}

void BoundaryEntrance::close() {
  const std::lock_guard lock(mutex_);
  run_.reset();
}

HelloAnswer BoundaryEntrance::answer(const Hello& hello) const {
  const std::lock_guard lock(mutex_);
  if (!run_) return Refusal{"no run is here yet"};
  if (const std::string reason = refusal_of(hello, run_->id); !reason.empty()) return Refusal{reason};
  const auto downstream = run_->downstreams.find(hello.boundary);
  if (downstream == run_->downstreams.end()) {
    return Refusal{"boundary " + std::to_string(hello.boundary.value) + " does not begin here"};
  }
  if (hello.node != NodeIdentity{NodeRole::executor, downstream->second.node}) {
    return Refusal{"boundary " + std::to_string(hello.boundary.value) + " is for executor " +
                   downstream->second.node};
  }
  if (hello.placement != downstream->second.placement.value) {
    return Refusal{"boundary " + std::to_string(hello.boundary.value) + " is for placement " +
                   std::to_string(downstream->second.placement.value) + " of its stage, not for " +
                   std::to_string(hello.placement)};
  }
  HelloAccepted accepted{upstream_options(run_->terms)};
  accepted.options.link = run_->link;
  return accepted;
}

void BoundaryEntrance::accepted(const std::shared_ptr<Connection>& connection, const Hello& hello) const {
  const std::lock_guard lock(mutex_);
  if (run_) {
    caf::anon_send(run_->door, accept_atom::value, hello.boundary, AcceptedConnection{connection});
  } else {
    connection->close("the run has ended");
  }
}

BoundaryTerms terms_of(const Assignment& assignment, StageIndex boundary) {
  const at::ScalarType compute_type = scalar_type(assignment.settings.compute);
  const bool from_source = boundary.value == 0;
  BoundaryTerms terms;
  terms.limits.rows_max = assignment.rows_max;
  terms.limits.sequences_max = assignment.sequences_max;
  terms.limits.width = assignment.settings.embeds(boundary) ? 0 : assignment.width;
  terms.limits.vocabulary = assignment.vocabulary;
  terms.limits.compute_type = compute_type;
  terms.wire_type =
      from_source ? exact_wire_type(compute_type) : parse_wire_type(assignment.wire_type, "wire_type");
  terms.depth = assignment.depth;
  terms.buffer_bytes_max = assignment.buffer_bytes_max;
  return terms;
}

ListenOptions listen_options(const Address& address, const Security& security, const std::string& token,
                             const NodeIdentity& own, const std::string& run_id) {
  ListenOptions listen;
  listen.address = address;
  listen.security = security;
  listen.welcome = {own, program_version, run_id};
  listen.token = token;
  return listen;
}

std::string refusal_of(const Hello& hello, const std::string& run) {
  if (hello.program_version != program_version) {
    return "version " + hello.program_version + " of zerolock cannot work with version " + program_version;
  }
  if (!hello.run.empty() && !run.empty() && hello.run != run) {
    return "run " + hello.run + " is not here, this is run " + run;
  }
  return {};
}

}  // namespace zerolock
