/// Coordinator and executors reach the bits of training in sequence, whoever hosts which stage.

#include <ATen/ATen.h>

#include "tests/supervision/remote_support.hpp"

#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

TEST_CASE("stages on executors reach the bits of stages trained in sequence", "[remote]") {
  for (const std::uint64_t stages : {1, 2, 3, 6}) {
    INFO(stages << " stages");
    RemoteCase given;
    given.stages = stages;
    given.executors = stages;
    const TemporaryFolder folder;
    check_same(given, run_remotely(given, folder));
  }
}

TEST_CASE("fewer executors than stages host several, more leave spares", "[remote]") {
  for (const std::uint64_t executors : {1, 2, 5}) {
    INFO(executors << " executors");
    RemoteCase given;
    given.executors = executors;
    const TemporaryFolder folder;
    check_same(given, run_remotely(given, folder));
  }
}

TEST_CASE("calibration targets reach stages of other processes", "[remote]") {
  RemoteCase given;
  given.calibrate = true;
  given.make_backend = calibrating;
  const TemporaryFolder folder;
  check_same(given, run_remotely(given, folder));
}

TEST_CASE("a worker that throws on an executor changes no bit", "[remote]") {
  for (const FaultPoint point : {FaultPoint::forward_end, FaultPoint::backward, FaultPoint::step}) {
    RemoteCase given;
    OneFault fault(point, StageIndex{1}, {WindowIndex{2}, point == FaultPoint::step ? 2u : 1u});
    given.fault = fault.hook();
    const TemporaryFolder folder;
    const RemoteResult result = run_remotely(given, folder);
    check_same(given, result);
    CHECK(fault.hit());
    CHECK(result.restarts.size() == 1);
    CHECK(result.outcome.stages[0].incarnation.value == 1);
    CHECK(result.outcome.stages[2].incarnation.value == 1);
  }
}

TEST_CASE("who was here before is not waited for without an end", "[remote]") {
  RemoteCase given;
  given.executors = 2;
  given.places = {{"node-0", {StageIndex{0}, StageIndex{1}}}, {"node-7", {StageIndex{2}}}};
  given.vacancy_limit = std::chrono::milliseconds(1100);
  const TemporaryFolder folder;
  const RemoteResult result = run_remotely(given, folder);
  CHECK(result.outcome.kind == ClusterOutcome::Kind::failed);
  CHECK(result.outcome.failure ==
        "the layers were cut for executor node-7, which did not come again within 1 s");
}

TEST_CASE("what crosses a boundary follows from who embeds", "[remote]") {
  Assignment assignment;
  assignment.width = 8;
  assignment.vocabulary = 100;
  assignment.wire_type = "int8";
  CHECK(terms_of(assignment, StageIndex{0}).limits.width == 0);  // token ids
  CHECK(terms_of(assignment, StageIndex{1}).limits.width == 8);
  CHECK(terms_of(assignment, StageIndex{1}).wire_type == WireType::int8);
  assignment.settings.embed_at = EmbedAt::source;
  CHECK(terms_of(assignment, StageIndex{0}).limits.width == 8);
  CHECK(terms_of(assignment, StageIndex{0}).wire_type == WireType::fp32);
  assignment.settings.compute = ComputeType::bf16;
  CHECK(terms_of(assignment, StageIndex{0}).wire_type == WireType::bf16);
}

/// "a: 2, b:, c: 0 1"
std::string text_of(const PlannedPlaces& places) {
  std::string text;
  for (const auto& [node, stages] : places) {
    text += (text.empty() ? "" : ", ") + node + ":";
    for (const StageIndex stage : stages) text += " " + std::to_string(stage.value);
  }
  return text;
}

TEST_CASE("stages go where they were, if all who had them are here", "[remote]") {
  const std::vector<std::string> here{"a", "b", "c"};
  CHECK(text_of(places_on(here, 3, {"c", "c", "a"})) == "a: 2, b:, c: 0 1");
  CHECK(text_of(places_on(here, 3, {"c", "d", "a"})) == "a: 0, b: 1, c: 2");
  CHECK(text_of(places_on(here, 3, {"c", "a"})) == "a: 0, b: 1, c: 2");
  CHECK(text_of(places_on(here, 3, {})) == "a: 0, b: 1, c: 2");
}

TEST_CASE("stages are spread evenly and in order", "[remote]") {
  const auto first_of = [](const std::vector<StageIndex>& stages) { return stages.front().value; };
  const auto one_each = spread_stages(3, 3);
  CHECK(one_each[2].size() == 1);
  CHECK(first_of(one_each[2]) == 2);
  const auto several = spread_stages(5, 2);
  CHECK(several[0].size() == 3);
  CHECK(first_of(several[1]) == 3);
  CHECK(spread_stages(2, 3)[2].empty());
}

}  // namespace
}  // namespace zerolock::test
