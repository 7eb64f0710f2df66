#pragma once
/// What coordinator and executor tell each other. Each message is delivered once and in order, whatever
/// connections break meanwhile (message_stream_core.hpp). Raw bytes that belong to a message travel beside
/// it.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/membership_core.hpp"
#include "actors/core/placement_core.hpp"
#include "actors/core/reports.hpp"
#include "actors/protocol.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

/// First words of a control connection, outside the numbered messages: who is there, what it runs, and what
/// it lacks of the conversation.
struct ControlOpening {
  ExecutorCard card;
  std::uint64_t conversation = 0;  // that it is in; 0: in none yet
  std::uint64_t lacking = 0;
  std::string session;               // of the run whose stages it has; empty: it has none
  std::vector<PlacedStage> running;  // these
};
/// The answer. If the conversation is another than the executor's, both sides begin anew.
struct ControlWelcome {
  std::uint64_t conversation = 0;
  std::uint64_t lacking = 0;
};

namespace control {

// -- executor -> coordinator

/// A stage's supervisor has begun.
struct StageAttached {
  StageIndex stage;
};
struct WindowCommitted {
  StageIndex stage;
  Incarnation incarnation;
  WindowIndex window;
};
/// Beside it: the state file of the checkpoint.
struct WindowDurable {
  StageIndex stage;
  WindowIndex window;
};
struct WindowReported {
  WindowReport report;
};
struct StageCalibrated {
  StageIndex stage;
};
struct SpansRecorded {
  std::vector<TraceSpan> spans;
};
struct StageRestarted {
  StageRestart restart;
};
/// Said at most once in deadlines.queues_interval for each stage, and only while somebody listens.
struct QueuesSeen {
  StageQueues queues;
};
/// Beside it: the targets.
struct TargetsMade {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool double_precision = false;
};
struct TargetsWanted {
  StageIndex stage;
  Incarnation incarnation;
};
struct SummaryGiven {
  std::vector<StageSummary> stages;
};
/// The executor gives up; `bad_input`: the text is the message of an InputError.
struct ExecutorFailed {
  std::string cause;
  bool bad_input = false;
};
/// Its last words: nothing of the run is left there.
struct ExecutorLeft {
  std::uint64_t stages = 0;  // that it hosted
};

// -- coordinator -> executor

/// What to run: an Assignment as text (supervision/assignment.hpp).
struct Assigned {
  std::string assignment;
};
/// Beside it: the state file that a stage of a resumed run starts from. Comes before Assigned.
struct InitialState {
  StageIndex stage;
  WindowIndex window;
};
/// Beside it: a state that the stage has made durable in an earlier placement. All of a stage come before
/// Assigned.
struct KeptState {
  StageIndex stage;
  WindowIndex window;
};
/// The stage before `boundary` is on another executor now, or in another life of it.
struct UpstreamMoved {
  StageIndex boundary;
  std::string node;
  std::string address;
};
/// The same of the stage behind it: only that placement may cross the boundary.
struct DownstreamMoved {
  StageIndex boundary;
  std::string node;
  Placement placement;
};
struct LineMoved {
  WindowIndex line;
};
struct RunEndsAt {
  WindowIndex window;
};
/// Beside it: the targets, shaped as in TargetsMade.
struct TargetsGiven {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool double_precision = false;
};
struct SummaryWanted {
  std::uint64_t request = 0;
};
/// The run has ended, or goes on without this executor: it stops its stages.
struct RunOver {
  std::string reason;   // empty: as planned
  bool rejoin = false;  // it may join again, with nothing
};

/// What an injected fault of a stage that is there shall be (core/fault_plan.hpp), as text.
struct FaultOrdered {
  std::string fault;
};

}  // namespace control

using ControlMessage =
    std::variant<control::StageAttached, control::WindowCommitted, control::WindowDurable,
                 control::WindowReported, control::StageCalibrated, control::SpansRecorded,
                 control::StageRestarted, control::QueuesSeen, control::TargetsMade, control::TargetsWanted,
                 control::SummaryGiven, control::ExecutorFailed, control::ExecutorLeft, control::Assigned,
                 control::InitialState, control::KeptState, control::UpstreamMoved, control::DownstreamMoved,
                 control::LineMoved, control::RunEndsAt, control::TargetsGiven, control::SummaryWanted,
                 control::RunOver, control::FaultOrdered>;

/// Bytes of a message, without what travels beside it.
std::string encode(const ControlMessage& message);
/// Throws WireError, one line, for bytes that are no message.
ControlMessage decode_control(std::span<const std::byte> bytes);

std::vector<std::byte> encode(const ControlOpening& opening);
ControlOpening decode_opening(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const ControlWelcome& welcome);
ControlWelcome decode_welcome(std::span<const std::byte> bytes);

/// The most bytes of a control message's frame metadata, its number included.
inline constexpr std::uint32_t control_bytes_max = 4u << 20;

}  // namespace zerolock
