/// What crosses boundaries between executors: how much, in which direction, and what waits meanwhile.

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "actors/remote/boundary_frames.hpp"
#include "tests/supervision/remote_support.hpp"
#include "tests/supervision/socket_counts.hpp"

#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

constexpr std::uint64_t framing_bytes_max = 512;  // of a micro-batch, metadata included

BackendFactory simulated_with(std::int64_t width, SimulatedDurations last_stage = {},
                              std::uint64_t last = 0) {
  return [=](StageIndex stage, MemoryAccount&) {
    return make_simulated_backend(stage, width, stage.value == last ? last_stage : SimulatedDurations{});
  };
}

/// Rows of all micro-batches of a run, and how many there are.
struct RunRows {
  std::uint64_t rows = 0;
  std::uint64_t rows_max = 0;
  std::uint64_t micro_batches = 0;
};
RunRows rows_of(const RemoteCase& given) {
  const CountingBatches batches(given.windows, given.micro_batches);
  RunRows counted;
  for (WindowIndex window{1}; window.value <= given.windows; window = window.next()) {
    for (std::uint64_t i = 0; i < batches.micro_batches(window); ++i) {
      const auto rows = static_cast<std::uint64_t>(batches.make({window, i}).layout->rows());
      counted.rows += rows;
      counted.rows_max = std::max(counted.rows_max, rows);
      ++counted.micro_batches;
    }
  }
  return counted;
}

/// Looks at the sockets when the last stage makes its last step: all entries have crossed then, and all
/// connections are still there.
class LastLook {
 public:
  explicit LastLook(const RemoteCase& given) : stage_(given.stages - 1), window_{given.windows} {}

  FaultHook hook() {
    return [this](FaultPoint point, StageIndex stage, Incarnation, const BatchPosition& position) {
      if (point != FaultPoint::step || stage != stage_ || position.window != window_) return;
      counts_ = socket_counts();
      listening_ = listening_ports();
    };
  }

  /// The upstream ends of the boundaries between executors, which listen for nothing else.
  [[nodiscard]] std::vector<SocketCount> upstreams(const RemoteResult& result) const {
    std::vector<SocketCount> found;
    for (const SocketCount& count : counts_) {
      if (count.local_port == result.coordinator_port) continue;
      if (std::find(listening_.begin(), listening_.end(), count.local_port) != listening_.end()) {
        found.push_back(count);
      }
    }
    return found;
  }

  [[nodiscard]] SocketCount other_end(const SocketCount& of) const {
    const auto found = std::find_if(counts_.begin(), counts_.end(), [&of](const SocketCount& count) {
      return count.local_port == of.remote_port && count.remote_port == of.local_port;
    });
    REQUIRE(found != counts_.end());
    return *found;
  }

 private:
  StageIndex stage_;
  WindowIndex window_;
  std::vector<SocketCount> counts_;
  std::vector<std::uint16_t> listening_;
};

std::uint64_t payload_bytes(const RemoteCase& given, std::uint64_t rows) {
  return rows * static_cast<std::uint64_t>(given.width) * sizeof(float);
}

/// No restart, nothing twice, the right bits; and one connection has carried all rows of each boundary.
void check_undisturbed(const RemoteCase& given, const RemoteResult& result, const LastLook& look) {
  check_same(given, result);
  CHECK(result.restarts.empty());
  for (const StageOutcome& stage : result.outcome.stages) {
    CHECK(stage.incarnation.value == 1);
    CHECK(stage.duplicates_dropped == 0);
  }
  const std::vector<SocketCount> upstreams = look.upstreams(result);
  CHECK(upstreams.size() == given.stages - 1);
  for (const SocketCount& upstream : upstreams) {
    CHECK(upstream.bytes_sent > payload_bytes(given, rows_of(given).rows));
  }
}

TEST_CASE("a boundary carries rows, little framing, and credit the other way", "[remote]") {
  RemoteCase given;
  given.windows = 40;
  given.micro_batches = 5;
  given.width = 64;
  given.make_backend = simulated_with(given.width);
  LastLook look(given);
  given.fault = look.hook();
  const TemporaryFolder folder;
  const RemoteResult result = run_remotely(given, folder);
  check_undisturbed(given, result, look);
  const RunRows run = rows_of(given);
  for (const SocketCount& upstream : look.upstreams(result)) {
    INFO(run.micro_batches << " micro-batches: " << upstream.bytes_sent << " bytes sent, "
                           << payload_bytes(given, run.rows) << " of them rows; " << upstream.bytes_received
                           << " received");
    CHECK(upstream.bytes_sent <= payload_bytes(given, run.rows) + run.micro_batches * framing_bytes_max);
    CHECK(upstream.bytes_received <= run.micro_batches * framing_bytes_max / 4);
    // The other end has counted for itself.
    const SocketCount downstream = look.other_end(upstream);
    CHECK(downstream.bytes_received > payload_bytes(given, run.rows));
    CHECK(downstream.bytes_received <=
          payload_bytes(given, run.rows) + run.micro_batches * framing_bytes_max);
    CHECK(downstream.bytes_sent <= run.micro_batches * framing_bytes_max / 4);
  }
}

TEST_CASE("an upstream takes credit and openings alone", "[remote]") {
  BoundaryTerms terms;
  terms.limits = {64, 8, 16, 100};
  const std::set<FrameType> against{FrameType::request, FrameType::credit, FrameType::beat, FrameType::bye};
  const FrameBounds bounds = upstream_options(terms).bounds;
  for (std::size_t i = 1; i <= frame_type_count; ++i) {
    const auto type = static_cast<FrameType>(i);
    INFO(to_string(type));
    CHECK(bounds.of(type).allowed == against.contains(type));
    if (bounds.of(type).allowed) CHECK(bounds.of(type).payload_bytes == 0);
  }
}

TEST_CASE("a slow last stage makes the others wait in bounded memory", "[remote]") {
  install_memory_accounting();
  RemoteCase given;
  given.windows = 101;
  given.micro_batches = 5;
  given.width = 1024;
  SimulatedDurations slow;
  slow.forward = slow.backward = std::chrono::microseconds(500);
  given.make_backend = simulated_with(given.width, slow, given.stages - 1);
  const RunRows run = rows_of(given);
  REQUIRE(run.micro_batches >= 500);
  const std::uint64_t entry_bytes = payload_bytes(given, run.rows_max);
  given.buffer_bytes_max = 40 * entry_bytes;
  LastLook look(given);
  given.fault = look.hook();
  const TemporaryFolder folder;
  const RemoteResult result = run_remotely(given, folder);
  check_undisturbed(given, result, look);
  for (const StageOutcome& stage : result.outcome.stages) {
    INFO(stage.peaks.total << " bytes held; an entry has up to " << entry_bytes);
    CHECK(stage.peaks.total > 0);
    // An inbound and an outbound buffer, what is on the way into the one and out of the other, and what a
    // micro-batch is worked on with.
    CHECK(stage.peaks.total <=
          static_cast<std::int64_t>(2 * given.buffer_bytes_max + (2 * given.depth + 4) * entry_bytes));
    CHECK(stage.peaks.total < static_cast<std::int64_t>(run.micro_batches * entry_bytes / 4));
  }
}

TEST_CASE("entries that take longer than any silence cross a slow link", "[remote]") {
  RemoteCase given;
  given.stages = given.executors = 2;
  given.windows = 1;
  given.micro_batches = 3;  // two in the only window
  given.width = 160;        // so that an entry takes about 2.5 s
  given.make_backend = simulated_with(given.width);
  given.link = parse_link_profile("5ms,1kB", "link");
  // A byte takes a millisecond.
  const std::chrono::milliseconds duration(payload_bytes(given, rows_of(given).rows_max));
  REQUIRE(duration > *ConnectionOptions{}.silence_limit);
  LastLook look(given);
  given.fault = look.hook();
  const TemporaryFolder folder;
  check_undisturbed(given, run_remotely(given, folder), look);
}

}  // namespace
}  // namespace zerolock::test
