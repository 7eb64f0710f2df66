#pragma once
/// Every actor of the system with the messages it understands: the table of contents.
///
///     coordinator side                                 executor side
///       RunRecorder    what happened, for the user       Agent              speaks for the executor
///       Journal        what must not be forgotten        StageControl       the supervisor of one stage
///       Membership     who belongs to the cluster          HiddenStateBuffer  inbound entries
///       Scheduler      windows, recovery line, end         StageWorker        trains
///       BatchSource    the upstream of boundary 0          OutboundBuffer     sent entries
///       TargetsHolder  what stages are fitted to           CheckpointKeeper   the disk
///
/// An entry's way: BatchSource -> HiddenStateBuffer 0 -> StageWorker 0 -> OutboundBuffer 0 ->
/// HiddenStateBuffer 1 -> ... Where a schedule has gradients, they go the same way back. The entries of the
/// calibration, window 0, go the same way; its targets go from the last stage's worker to the TargetsHolder,
/// and from there to every worker. Entries, states, targets and results move by reference and never leave the
/// process as actor messages; everything else can be serialised.

#include <ATen/ATen.h>

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/core/flow_credit.hpp"
#include "actors/core/journal.hpp"
#include "actors/core/membership_core.hpp"
#include "actors/core/reports.hpp"
#include "tensors/base/entry.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

// -- message names
// -------------------------------------------------------------------------------------------------

using allow_atom = caf::atom_constant<caf::atom("allow")>;  // outbound buffer -> worker: what it may produce
using append_atom = caf::atom_constant<caf::atom("append")>;  // -> journal: keep this record
using attach_atom =
    caf::atom_constant<caf::atom("attach")>;  // worker -> outbound buffer, targets holder; stage -> scheduler
using beat_atom = caf::atom_constant<caf::atom("beat")>;  // agent -> membership: still here
using blocked_atom =
    caf::atom_constant<caf::atom("blocked")>;  // upstream -> buffer: an entry lacks bytes of credit
using calibrated_atom =
    caf::atom_constant<caf::atom("calibrated")>;                // stage -> recorder: window 0 is durable
using commit_atom = caf::atom_constant<caf::atom("commit")>;    // worker -> scheduler: a step is applied
using connect_atom = caf::atom_constant<caf::atom("connect")>;  // executor -> buffer: this is your upstream
using credit_atom = caf::atom_constant<caf::atom("credit")>;    // buffer -> upstream: what it may send
using durable_atom =
    caf::atom_constant<caf::atom("durable")>;  // keeper -> stage -> buffer, worker, scheduler
using end_at_atom =
    caf::atom_constant<caf::atom("end_at")>;  // scheduler -> stages: the run ends with this window
using entry_atom = caf::atom_constant<caf::atom("entry")>;  // along the data path
using gradient_atom =
    caf::atom_constant<caf::atom("gradient")>;  // worker -> buffers -> worker, against the data path
using grant_atom = caf::atom_constant<caf::atom("grant")>;  // scheduler -> batch source: windows may be sent
using hello_atom =
    caf::atom_constant<caf::atom("hello")>;  // buffer -> upstream: connected, and what it lacks
using lacks_atom =
    caf::atom_constant<caf::atom("lacks")>;  // stage -> outbound buffer: what must be made again?
using leave_atom = caf::atom_constant<caf::atom("leave")>;  // agent -> membership: goodbye
using line_atom =
    caf::atom_constant<caf::atom("line")>;  // scheduler -> stages, targets holder: the recovery line
using members_atom = caf::atom_constant<caf::atom("members")>;   // -> membership: who is there?
using join_member_atom = caf::atom_constant<caf::atom("join")>;  // agent -> membership: may I come in?
using ports_atom = caf::atom_constant<caf::atom("ports")>;  // stage -> executor: the ends of its boundaries
using put_atom = caf::atom_constant<caf::atom("put")>;      // worker -> outbound buffer: send this
using records_atom = caf::atom_constant<caf::atom("records")>;  // -> journal: all so far
using report_atom = caf::atom_constant<caf::atom("report")>;    // -> recorder
using restart_atom =
    caf::atom_constant<caf::atom("restart")>;  // stage -> recorder; stage -> itself after a pause
using restore_atom = caf::atom_constant<caf::atom("restore")>;  // stage -> keeper: the newest good state
using rewind_atom =
    caf::atom_constant<caf::atom("rewind")>;                // stage -> buffer: feed a new life of the worker
using save_atom = caf::atom_constant<caf::atom("save")>;    // worker -> keeper: make this durable
using spans_atom = caf::atom_constant<caf::atom("spans")>;  // -> recorder
using start_atom = caf::atom_constant<caf::atom("start")>;  // begin
using stop_atom = caf::atom_constant<caf::atom("stop")>;    // -> scheduler: orderly stop
using summary_atom =
    caf::atom_constant<caf::atom("summary")>;             // coordinator -> executor -> stages: final words
using take_atom = caf::atom_constant<caf::atom("take")>;  // worker -> hidden-state buffer: the next entry
using targets_atom = caf::atom_constant<caf::atom("targets")>;  // last worker -> targets holder -> workers
using tick_atom = caf::atom_constant<caf::atom("tick")>;        // an actor to itself

// -- message contents
// ----------------------------------------------------------------------------------------------

/// First word of a connection across a boundary. Sessions of one boundary count up; a later one ends those
/// before.
struct BoundaryHello {
  std::uint64_t session = 0;
  BatchPosition first_lacking;
};

/// A state by reference: written by nobody once it was sent.
struct SharedState {
  std::shared_ptr<const StageState> state;  // null: the initial state that the backend makes itself
};

/// What a keeper has found.
struct RestoredState {
  SharedState shared;
  bool on_disk = false;               // false: an initial state that must be saved first
  std::vector<std::string> problems;  // damaged checkpoints that were passed over, a line each
};

/// What the stages are fitted to, [rows, width], by reference: written by nobody once it was sent. Crosses
/// processes only in one piece, once to the coordinator and once to each stage; a link that does so puts it
/// into frames as it does an entry's payload.
struct CalibrationTargets {
  at::Tensor rows;
};

/// The gradient of the loss with respect to what a stage sent on for one micro-batch, by reference: the
/// receiver's alone. Undefined where nothing is supervised.
struct OutputGradient {
  BatchPosition position;
  at::Tensor gradient;  // compute type [rows, width]
};

/// A stage worker has begun a new life.
struct StageRestart {
  StageIndex stage;
  Incarnation incarnation;
  WindowsDone window;  // the committed one it goes on from; none: its calibration starts anew
  std::string cause;
};

/// What a hidden-state buffer has seen.
struct InboundStatistics {
  std::uint64_t dropped = 0;
  std::uint64_t held_bytes_peak = 0;
  std::uint64_t waiting_entries = 0;  // now; not taken yet
  std::uint64_t held_entries = 0;     // now; those and the taken ones
};

/// What an outbound buffer has now, in entries.
struct OutboundStatistics {
  std::uint64_t unsent_entries = 0;
  std::uint64_t held_entries = 0;  // those and the sent ones
};

/// A stage's last words.
struct StageSummary {
  StageIndex stage;
  Incarnation incarnation;
  std::uint64_t duplicates_dropped = 0;
  MemoryPeaks peaks{};
  /// Proportional set size of the stage's process at its highest, which counts pages shared with other
  /// processes by their share; 0 where the process holds the coordinator too.
  std::uint64_t process_bytes_peak = 0;
};

/// On the wire, the first window that is not done.
template <class I>
typename I::result_type inspect(I& f, WindowsDone& x) {
  std::uint64_t first = window_after(x).value;
  return f(first, caf::meta::load_callback([&] {
             x = first == 0 ? WindowsDone{} : WindowsDone{WindowIndex{first - 1}};
             return caf::error{};
           }));
}
template <class I>
typename I::result_type inspect(I& f, BoundaryHello& x) {
  return f(caf::meta::type_name("BoundaryHello"), x.session, x.first_lacking);
}
template <class I>
typename I::result_type inspect(I& f, StageRestart& x) {
  return f(caf::meta::type_name("StageRestart"), x.stage, x.incarnation, x.window, x.cause);
}
template <class I>
typename I::result_type inspect(I& f, InboundStatistics& x) {
  return f(caf::meta::type_name("InboundStatistics"), x.dropped, x.held_bytes_peak, x.waiting_entries,
           x.held_entries);
}
template <class I>
typename I::result_type inspect(I& f, OutboundStatistics& x) {
  return f(caf::meta::type_name("OutboundStatistics"), x.unsent_entries, x.held_entries);
}
template <class I>
typename I::result_type inspect(I& f, StageSummary& x) {
  return f(caf::meta::type_name("StageSummary"), x.stage, x.incarnation, x.duplicates_dropped,
           x.peaks.components, x.peaks.total, x.process_bytes_peak);
}
template <class I>
typename I::result_type inspect(I& f, EntryCredit& x) {
  return f(caf::meta::type_name("EntryCredit"), x.entries_total, x.bytes_total);
}
template <class I>
typename I::result_type inspect(I& f, OutputAllowance& x) {
  return f(caf::meta::type_name("OutputAllowance"), x.next, x.accepted_entries, x.accepted_bytes,
           x.allowed_entries, x.allowed_bytes, x.recovery_line, x.bytes_per_row);
}
template <class I>
typename I::result_type inspect(I& f, ExecutorCard& x) {
  return f(caf::meta::type_name("ExecutorCard"), x.name, x.version, x.cores, x.memory_bytes, x.placement,
           x.data_address, x.gigaflops, x.link_bytes_per_second, x.spare, x.threads);
}
template <class I>
typename I::result_type inspect(I& f, JournalRecord& x) {
  return f(caf::meta::type_name("JournalRecord"), x.kind, x.stage, x.window, x.text);
}
template <class I>
typename I::result_type inspect(I& f, LossReport& x) {
  return f(caf::meta::type_name("LossReport"), x.task_loss, x.consistency_loss, x.loss, x.supervised_rows,
           x.examples);
}
template <class I>
typename I::result_type inspect(I& f, StepReport& x) {
  return f(caf::meta::type_name("StepReport"), x.learning_rate, x.gradient_norm, x.micro_batches);
}
template <class I>
typename I::result_type inspect(I& f, WindowReport& x) {
  return f(caf::meta::type_name("WindowReport"), x.stage, x.window, x.loss, x.step, x.busy);
}
template <class I>
typename I::result_type inspect(I& f, TraceSpan& x) {
  return f(caf::meta::type_name("TraceSpan"), x.kind, x.stage, x.incarnation, x.position, x.begin, x.end);
}

/// Registers every message type that may leave the process.
template <class Config>
void add_message_types(Config& config) {
  config.template add_message_type<BatchPosition>("BatchPosition");
  config.template add_message_type<StageIndex>("StageIndex");
  config.template add_message_type<WindowIndex>("WindowIndex");
  config.template add_message_type<WindowsDone>("WindowsDone");
  config.template add_message_type<Incarnation>("Incarnation");
  config.template add_message_type<BoundaryHello>("BoundaryHello");
  config.template add_message_type<StageRestart>("StageRestart");
  config.template add_message_type<InboundStatistics>("InboundStatistics");
  config.template add_message_type<OutboundStatistics>("OutboundStatistics");
  config.template add_message_type<StageSummary>("StageSummary");
  config.template add_message_type<EntryCredit>("EntryCredit");
  config.template add_message_type<OutputAllowance>("OutputAllowance");
  config.template add_message_type<ExecutorCard>("ExecutorCard");
  config.template add_message_type<JournalRecord>("JournalRecord");
  config.template add_message_type<WindowReport>("WindowReport");
  config.template add_message_type<TraceSpan>("TraceSpan");
}

// -- actors of the coordinator side
// --------------------------------------------------------------------------------

/// Tells the user, once for each stage and window, what happened.
using RunRecorderActor =
    caf::typed_actor<caf::reacts_to<report_atom, WindowReport>, caf::reacts_to<calibrated_atom, StageIndex>,
                     caf::reacts_to<spans_atom, std::vector<TraceSpan>>,
                     caf::reacts_to<restart_atom, StageRestart>>;

/// Answers with the number of records kept so far.
using JournalActor = caf::typed_actor<caf::replies_to<append_atom, JournalRecord>::with<std::uint64_t>,
                                      caf::replies_to<records_atom>::with<std::vector<JournalRecord>>>;

/// Answers a join with an empty text, or with the reason for refusing.
using MembershipActor = caf::typed_actor<caf::replies_to<join_member_atom, ExecutorCard>::with<std::string>,
                                         caf::reacts_to<beat_atom, std::string, std::uint64_t>,
                                         caf::reacts_to<leave_atom, std::string, std::uint64_t>,
                                         caf::replies_to<members_atom>::with<std::vector<ExecutorCard>>>;

/// A stage, as the scheduler sees it.
using StageControlActor =
    caf::typed_actor<caf::reacts_to<line_atom, WindowIndex>, caf::reacts_to<end_at_atom, WindowIndex>>;

using SchedulerActor =
    caf::typed_actor<caf::reacts_to<start_atom>, caf::reacts_to<attach_atom, StageIndex, StageControlActor>,
                     caf::reacts_to<commit_atom, StageIndex, Incarnation, WindowIndex>,
                     caf::reacts_to<durable_atom, StageIndex, WindowIndex>, caf::reacts_to<stop_atom>>;

/// Hears that every stage has made the run's last window durable; the flag says whether a stop was asked for.
using RunOwnerActor = caf::typed_actor<caf::reacts_to<end_at_atom, WindowIndex, bool>>;

// -- actors along the data path
// ------------------------------------------------------------------------------------

/// Takes entries of a session.
using EntryReceiverActor = caf::typed_actor<caf::reacts_to<entry_atom, std::uint64_t, Entry>,
                                            caf::reacts_to<blocked_atom, BatchPosition, std::uint64_t>>;

/// What sends across a boundary: the batch source, an outbound buffer, later a link.
using UpstreamActor = caf::typed_actor<caf::reacts_to<hello_atom, BoundaryHello, EntryReceiverActor>,
                                       caf::reacts_to<credit_atom, std::uint64_t, EntryCredit>>;

using BatchSourceActor = UpstreamActor::extend<caf::reacts_to<grant_atom, WindowIndex>>;

/// Takes gradients that come back from the next stage.
using GradientReceiverActor = caf::typed_actor<caf::reacts_to<gradient_atom, OutputGradient>>;

/// Calibrates and trains one stage. Everything it waits for comes as a message.
using StageWorkerActor =
    caf::typed_actor<caf::reacts_to<start_atom>, caf::reacts_to<entry_atom, Entry>,
                     caf::reacts_to<gradient_atom, OutputGradient>,
                     caf::reacts_to<allow_atom, OutputAllowance>, caf::reacts_to<durable_atom, WindowIndex>,
                     caf::reacts_to<targets_atom, CalibrationTargets>,
                     caf::reacts_to<end_at_atom, WindowIndex>>;

/// Is fitted to the targets of the calibration: a worker, or a link to one.
using TargetsReceiverActor = caf::typed_actor<caf::reacts_to<targets_atom, CalibrationTargets>>;

/// Gives every worker that attaches the targets of the calibration, as soon as the last stage's has handed
/// them over, until the recovery line has reached window 0.
using TargetsHolderActor =
    caf::typed_actor<caf::reacts_to<targets_atom, CalibrationTargets>,
                     caf::reacts_to<attach_atom, StageIndex, Incarnation, TargetsReceiverActor>,
                     caf::reacts_to<line_atom, WindowIndex>>;

/// Gives one entry for each take of the current life of its worker. Where the schedule has gradients come
/// back, it passes its worker's on to its upstream, which is then the outbound buffer of the stage before.
using HiddenStateBufferActor = EntryReceiverActor::extend<
    caf::reacts_to<connect_atom, std::uint64_t, UpstreamActor>,
    caf::reacts_to<take_atom, Incarnation, StageWorkerActor>, caf::reacts_to<gradient_atom, OutputGradient>,
    caf::reacts_to<rewind_atom, WindowsDone, Incarnation>, caf::reacts_to<durable_atom, WindowIndex>,
    caf::replies_to<summary_atom>::with<InboundStatistics>>;

/// Answers `lacks` as soon as the downstream has connected. Gradients go on to its worker.
using OutboundBufferActor = UpstreamActor::extend<
    caf::reacts_to<put_atom, Entry>, caf::reacts_to<attach_atom, Incarnation, StageWorkerActor>,
    caf::reacts_to<gradient_atom, OutputGradient>, caf::reacts_to<line_atom, WindowIndex>,
    caf::replies_to<lacks_atom>::with<BatchPosition>,
    caf::replies_to<summary_atom>::with<OutboundStatistics>>;

/// Works in a thread of its own, so that training never waits for the disk.
using CheckpointKeeperActor =
    caf::typed_actor<caf::reacts_to<save_atom, Incarnation, SharedState>,
                     caf::replies_to<restore_atom, WindowIndex>::with<RestoredState>,
                     caf::reacts_to<line_atom, WindowIndex>>;

// -- actors of the executor side
// -----------------------------------------------------------------------------------

/// Speaks for the executor towards membership.
using AgentActor = caf::typed_actor<caf::reacts_to<start_atom>, caf::reacts_to<tick_atom>>;

/// What a keeper reports to.
using DurabilityOwnerActor = caf::typed_actor<caf::reacts_to<durable_atom, WindowIndex>>;

/// The supervisor of one stage.
using StageSupervisorActor =
    StageControlActor::extend<caf::reacts_to<durable_atom, WindowIndex>, caf::reacts_to<start_atom>,
                              caf::reacts_to<restart_atom>,
                              caf::replies_to<summary_atom>::with<StageSummary>>;

/// The executors of a run, as the coordinator sees them. Answers when all stages have.
using ExecutorsActor = caf::typed_actor<caf::replies_to<summary_atom>::with<std::vector<StageSummary>>>;

/// The supervisor of one executor: knows the ends of all boundaries in this process and joins them.
using ExecutorSupervisorActor =
    ExecutorsActor::extend<caf::reacts_to<ports_atom, StageIndex, HiddenStateBufferActor, UpstreamActor>>;

/// The way into a stage from another process: the upstream's end here. Joins each new downstream to it.
using InboundLinkActor = UpstreamActor::extend<caf::reacts_to<connect_atom, HiddenStateBufferActor>>;

/// Lets downstreams of other processes in: knows what sends across the boundaries that lead out of here.
using BoundaryDoorActor = caf::typed_actor<caf::reacts_to<ports_atom, StageIndex, UpstreamActor>>;

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::Entry)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::CalibrationTargets)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::OutputGradient)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::SharedState)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::RestoredState)
