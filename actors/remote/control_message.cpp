#include "actors/remote/control_message.hpp"

#include <chrono>
#include <utility>

#include "transport/wire_archive.hpp"

namespace zerolock {

namespace {

void transfer(WireWriter& archive, std::chrono::nanoseconds& duration) {
  archive(static_cast<std::int64_t>(duration.count()));
}
void transfer(WireReader& archive, std::chrono::nanoseconds& duration) {
  std::int64_t count = 0;
  archive(count);
  duration = std::chrono::nanoseconds{count};
}

void check(const WireWriter&, TraceSpan::Kind) {}
void check(const WireReader& archive, TraceSpan::Kind kind) {
  check_enumeration(archive, kind, TraceSpan::Kind::forward, TraceSpan::Kind::calibrate, "kind of span");
}

}  // namespace

template <class Archive>
void serialize(Archive& archive, ExecutorCard& card) {
  archive(card.name, card.version, card.cores, card.memory_bytes, card.placement, card.data_address,
          card.gigaflops, card.link_bytes_per_second, card.spare, card.threads);
}
template <class Archive>
void serialize(Archive& archive, PlacedStage& placed) {
  archive(placed.stage, placed.placement);
}
template <class Archive>
void serialize(Archive& archive, ControlOpening& opening) {
  archive(opening.card, opening.conversation, opening.lacking, opening.session, opening.running);
}
template <class Archive>
void serialize(Archive& archive, ControlWelcome& welcome) {
  archive(welcome.conversation, welcome.lacking);
}
template <class Archive>
void serialize(Archive& archive, LossReport& report) {
  archive(report.task_loss, report.consistency_loss, report.loss, report.supervised_rows, report.examples);
}
template <class Archive>
void serialize(Archive& archive, StepReport& report) {
  archive(report.learning_rate, report.gradient_norm, report.micro_batches);
}
template <class Archive>
void serialize(Archive& archive, WindowReport& report) {
  archive(report.stage, report.window, report.loss, report.step);
  transfer(archive, report.busy);
}
template <class Archive>
void serialize(Archive& archive, TraceSpan& span) {
  archive(span.kind, span.stage, span.incarnation, span.position);
  check(archive, span.kind);
  transfer(archive, span.begin);
  transfer(archive, span.end);
}
template <class Archive>
void serialize(Archive& archive, StageRestart& restart) {
  archive(restart.stage, restart.incarnation, restart.window, restart.cause);
}
template <class Archive>
void serialize(Archive& archive, StageQueues& queues) {
  archive(queues.stage, queues.inbound_waiting, queues.inbound_held, queues.outbound_unsent,
          queues.outbound_held);
}
template <class Archive>
void serialize(Archive& archive, StageSummary& summary) {
  archive(summary.stage, summary.incarnation, summary.duplicates_dropped);
  for (std::int64_t& bytes : summary.peaks.components) archive(bytes);
  archive(summary.peaks.total, summary.process_bytes_peak);
}

namespace control {

template <class Archive>
void serialize(Archive& archive, StageAttached& message) {
  archive(message.stage);
}
template <class Archive>
void serialize(Archive& archive, WindowCommitted& message) {
  archive(message.stage, message.incarnation, message.window);
}
template <class Archive>
void serialize(Archive& archive, WindowDurable& message) {
  archive(message.stage, message.window);
}
template <class Archive>
void serialize(Archive& archive, WindowReported& message) {
  archive(message.report);
}
template <class Archive>
void serialize(Archive& archive, StageCalibrated& message) {
  archive(message.stage);
}
template <class Archive>
void serialize(Archive& archive, SpansRecorded& message) {
  archive(message.spans);
}
template <class Archive>
void serialize(Archive& archive, StageRestarted& message) {
  archive(message.restart);
}
template <class Archive>
void serialize(Archive& archive, QueuesSeen& message) {
  archive(message.queues);
}
template <class Archive>
void serialize(Archive& archive, TargetsMade& message) {
  archive(message.rows, message.width, message.double_precision);
}
template <class Archive>
void serialize(Archive& archive, TargetsWanted& message) {
  archive(message.stage, message.incarnation);
}
template <class Archive>
void serialize(Archive& archive, SummaryGiven& message) {
  archive(message.stages);
}
template <class Archive>
void serialize(Archive& archive, ExecutorFailed& message) {
  archive(message.cause, message.bad_input);
}
template <class Archive>
void serialize(Archive& archive, ExecutorLeft& message) {
  archive(message.stages);
}
template <class Archive>
void serialize(Archive& archive, Assigned& message) {
  archive(message.assignment);
}
template <class Archive>
void serialize(Archive& archive, InitialState& message) {
  archive(message.stage, message.window);
}
template <class Archive>
void serialize(Archive& archive, KeptState& message) {
  archive(message.stage, message.window);
}
template <class Archive>
void serialize(Archive& archive, UpstreamMoved& message) {
  archive(message.boundary, message.node, message.address);
}
template <class Archive>
void serialize(Archive& archive, DownstreamMoved& message) {
  archive(message.boundary, message.node, message.placement);
}
template <class Archive>
void serialize(Archive& archive, LineMoved& message) {
  archive(message.line);
}
template <class Archive>
void serialize(Archive& archive, RunEndsAt& message) {
  archive(message.window);
}
template <class Archive>
void serialize(Archive& archive, TargetsGiven& message) {
  archive(message.rows, message.width, message.double_precision);
}
template <class Archive>
void serialize(Archive& archive, SummaryWanted& message) {
  archive(message.request);
}
template <class Archive>
void serialize(Archive& archive, RunOver& message) {
  archive(message.reason, message.rejoin);
}
template <class Archive>
void serialize(Archive& archive, FaultOrdered& message) {
  archive(message.fault);
}

}  // namespace control

namespace {

/// Reads the alternative of that index.
template <std::size_t index = 0>
ControlMessage read_alternative(WireReader& reader, std::size_t wanted) {
  if constexpr (index == std::variant_size_v<ControlMessage>) {
    reader.fail("unknown kind " + std::to_string(wanted));
  } else {
    if (wanted != index) return read_alternative<index + 1>(reader, wanted);
    std::variant_alternative_t<index, ControlMessage> message;
    reader(message);
    return message;
  }
}

}  // namespace

std::string encode(const ControlMessage& message) {
  WireWriter writer;
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&writer](const auto& content) { writer(content); }, message);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ControlMessage decode_control(std::span<const std::byte> bytes) {
  WireReader reader(bytes, "control message");
  std::uint8_t kind = 0;
  reader(kind);
  ControlMessage message = read_alternative(reader, kind);
  reader.finish();
  return message;
}

std::vector<std::byte> encode(const ControlOpening& opening) {
  return to_wire(opening);
}

ControlOpening decode_opening(std::span<const std::byte> bytes) {
  return from_wire<ControlOpening>(bytes, "opening of a control connection");
}

std::vector<std::byte> encode(const ControlWelcome& welcome) {
  return to_wire(welcome);
}

ControlWelcome decode_welcome(std::span<const std::byte> bytes) {
  return from_wire<ControlWelcome>(bytes, "welcome of a control connection");
}

}  // namespace zerolock
