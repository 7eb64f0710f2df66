#pragma once
/// The actor that stands, in an executor's process, for the coordinator: its scheduler, recorder and targets
/// holder. Joins the cluster, and joins again when the connection breaks; what is said meanwhile waits.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/protocol.hpp"
#include "actors/remote/control_channel.hpp"
#include "actors/remote/traffic.hpp"
#include "transport/network.hpp"

namespace zerolock {

using running_atom = caf::atom_constant<caf::atom("running")>;  // -> link: what the executor runs now

/// Hears what the coordinator says to the executor as a whole: Assigned, the states before it, neighbours
/// that moved, SummaryWanted, RunOver.
using CoordinatorListenerActor = caf::typed_actor<caf::reacts_to<control_atom, ReceivedControl>>;

/// Everything an executor's actors say to the coordinator's, and what the executor itself has to say. After
/// its goodbye, ExecutorLeft, the link ends.
using CoordinatorLinkActor = caf::typed_actor<
    // as a scheduler
    caf::reacts_to<start_atom>, caf::reacts_to<attach_atom, StageIndex, StageControlActor>,
    caf::reacts_to<commit_atom, StageIndex, Incarnation, WindowIndex>,
    caf::reacts_to<durable_atom, StageIndex, WindowIndex>, caf::reacts_to<stop_atom>,
    // as a run recorder
    caf::reacts_to<report_atom, WindowReport>, caf::reacts_to<calibrated_atom, StageIndex>,
    caf::reacts_to<spans_atom, std::vector<TraceSpan>>, caf::reacts_to<restart_atom, StageRestart>,
    // as a targets holder
    caf::reacts_to<targets_atom, CalibrationTargets>,
    caf::reacts_to<attach_atom, StageIndex, Incarnation, TargetsReceiverActor>,
    caf::reacts_to<line_atom, WindowIndex>,
    // for the executor
    caf::reacts_to<running_atom, std::string, std::vector<PlacedStage>>,
    caf::reacts_to<control_atom, ReceivedControl>>;

struct CoordinatorLinkSetup {
  ExecutorCard card;
  std::shared_ptr<Network> network;
  DialOptions dial;                     // its connection options are filled in
  std::uint64_t payload_bytes_max = 0;  // beside a message of the coordinator
  std::filesystem::path
      checkpoints;  // of the executor's stages; copies of durable ones go to the coordinator
  CoordinatorListenerActor owner;
  std::function<void(const std::string&)> note;  // one line for the log; may be called by any thread
  TrafficWatch watch;                            // of states that go to the coordinator
};

/// Goes on with a coordinator that has started again: says anew all that it has to know of the stages. Fails,
/// permanently, if the coordinator refuses the executor, or is away too long once it had accepted it. Before
/// that it waits without an end.
CoordinatorLinkActor spawn_coordinator_link(caf::local_actor& parent, CoordinatorLinkSetup setup);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<zerolock::PlacedStage>)
