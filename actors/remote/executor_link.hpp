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
using opened_atom = caf::atom_constant<caf::atom("opened")>;  // link -> owner: an executor is here
using away_atom = caf::atom_constant<caf::atom("away")>;      // link -> owner: it is out of reach
using back_atom = caf::atom_constant<caf::atom("back")>;      // link -> owner: it is here again
using forget_atom = caf::atom_constant<caf::atom("forget")>;  // -> link: stages that others get; answered
using over_atom = caf::atom_constant<caf::atom("over")>;      // -> link: the run has ended for its executor

/// What one executor is to run.
struct ExecutorAssignment {
  std::set<StageIndex> stages;
  std::string text;  // supervision/assignment.hpp
  /// The state files that stages of a resumed run start from, by stage; none of a new run.
  std::map<StageIndex, std::string> initial_states;
  WindowIndex initial_window;
  /// Stages of an earlier placement: the coordinator's copies of their states go along.
  std::set<StageIndex> with_kept_states;
};

/// Stages that are about to go to another executor.
struct ForgottenStages {
  std::set<StageIndex> stages;
};

/// An executor that begins a conversation: a new life of it, or one that another life of the coordinator
/// knew.
struct OpenedExecutor {
  ExecutorCard card;
  std::string session;               // of the stages that it runs; empty: it runs none
  std::vector<PlacedStage> running;  // these
};
struct OpenedAnswer {
  std::string refusal;  // empty: it is welcome, and so is what it runs
  bool rejoin = false;  // refused: it may come again with nothing
};

/// A link as the scheduler, the targets holder and its owner see it. It answers `summary` for its stages, and
/// passes on to its executor what comes with `control`. After its answer to `forget` nothing that its
/// executor still says of those stages counts. After `over`, whose flag says whether the executor may join
/// again, it ends normally when its executor has left; the same before it had anything to do. An executor
/// that fails or leaves is the reason with which its link ends.
using ExecutorLinkActor = ExecutorsActor::extend<
    caf::reacts_to<line_atom, WindowIndex>, caf::reacts_to<end_at_atom, WindowIndex>,
    caf::reacts_to<targets_atom, CalibrationTargets>, caf::reacts_to<accept_atom, AcceptedConnection>,
    caf::reacts_to<assign_atom, ExecutorAssignment>, caf::reacts_to<over_atom, std::string, bool>,
    caf::reacts_to<control_atom, ReceivedControl>, caf::replies_to<forget_atom, ForgottenStages>::with<bool>>;

/// Hears of executors by the names of their nodes.
using ExecutorOwnerActor =
    caf::typed_actor<caf::replies_to<opened_atom, std::string, OpenedExecutor>::with<OpenedAnswer>,
                     caf::reacts_to<away_atom, std::string, std::string>,
                     caf::reacts_to<back_atom, std::string>>;

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

/// Stays for all lives of the executor, until it is told to go. Works in a thread of its own, since it writes
/// files.
ExecutorLinkActor spawn_executor_link(caf::local_actor& parent, ExecutorLinkSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ExecutorAssignment)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ForgottenStages)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::OpenedExecutor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::OpenedAnswer)
