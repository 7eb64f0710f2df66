#pragma once
/// The actor that stands, in the coordinator's process, for one executor and all stages on it, through all of
/// its connections.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol.hpp"
#include "actors/remote/boundary_door.hpp"
#include "actors/remote/control_channel.hpp"
#include "actors/remote/executor_observer.hpp"
#include "transport/connection.hpp"

namespace zerolock {

using assign_atom = caf::atom_constant<caf::atom("assign")>;  // -> link: what its executor is to run
using joined_atom = caf::atom_constant<caf::atom("joined")>;  // link -> owner: the executor is a member
using over_atom = caf::atom_constant<caf::atom("over")>;      // -> link: the run has ended for its executor

/// What one executor is to run.
struct ExecutorAssignment {
  std::set<StageIndex> stages;
  std::string text;  // supervision/assignment.hpp
  /// The state files that stages of a resumed run start from, by stage; none of a new run.
  std::map<StageIndex, std::string> initial_states;
  WindowIndex initial_window;
};

/// A link as the scheduler, the targets holder and its owner see it. It answers `summary` for its stages. It
/// ends normally when its executor has left after `over`, or before it had anything to do.
using ExecutorLinkActor = ExecutorsActor::extend<
    caf::reacts_to<line_atom, WindowIndex>, caf::reacts_to<end_at_atom, WindowIndex>,
    caf::reacts_to<targets_atom, CalibrationTargets>, caf::reacts_to<accept_atom, AcceptedConnection>,
    caf::reacts_to<assign_atom, ExecutorAssignment>, caf::reacts_to<over_atom, std::string>>;

/// Hears that an executor is a member, with the name of its node.
using ExecutorOwnerActor = caf::typed_actor<caf::reacts_to<joined_atom, std::string, ExecutorCard>>;

struct ExecutorLinkSetup {
  std::string name;  // of the node
  RunRecorderActor recorder;
  MembershipActor membership;
  TargetsHolderActor targets;
  SchedulerActor scheduler;
  std::filesystem::path checkpoints;    // copies of all durable states go there
  std::uint64_t payload_bytes_max = 0;  // beside a message of the executor
  ExecutorOwnerActor owner;
  ExecutorObserver observer;                     // hears `lost`, `back` and `durable` from the link
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
};

/// Works in a thread of its own, since it writes files.
ExecutorLinkActor spawn_executor_link(caf::local_actor& parent, ExecutorLinkSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ExecutorAssignment)
