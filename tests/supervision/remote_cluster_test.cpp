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
