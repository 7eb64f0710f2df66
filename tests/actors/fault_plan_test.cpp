// Faults as text, and which of them are due when.

#include "actors/core/fault_plan.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;

namespace {

constexpr BatchPosition position(std::uint64_t window, std::uint64_t micro_batch) {
  return {WindowIndex{window}, micro_batch};
}

}  // namespace

TEST_CASE("a fault says the same as text", "[fault-plan]") {
  for (const char* text :
       {"throw stage=1,window=3,micro_batch=2,at=backward", "kill stage=0,at=step",
        "hang stage=2,window=1,at=forward-begin,seconds=0.25", "sigkill stage=1,at=durable-ack,times=3",
        "sigstop stage=1,at=entry-sent,seconds=3", "drop-link stage=0,at=forward-end",
        "corrupt-frame stage=0,at=entry-received", "corrupt-checkpoint stage=2,at=manifest",
        "disk-full stage=2,window=4,at=checkpoint-temp,times=9"}) {
    CHECK(to_string(parse_fault(text, "test")) == text);
  }
  CHECK(parse_fault("throw phase=step", "--at").point == FaultPoint::step);
  CHECK(parse_fault("throw", "test") == Fault{});
}

TEST_CASE("what is no fault is refused with its key and what is allowed", "[fault-plan]") {
  const auto refuses = [](const char* text, const char* message) {
    CHECK_THROWS_AS(parse_fault(text, "line 4"), InputError);
    CHECK_THROWS_WITH(parse_fault(text, "line 4"), Catch::StartsWith("line 4") && Catch::Contains(message));
  };
  refuses("explode", "'explode' is not known; allowed: throw, kill, hang, sigkill");
  refuses("throw at=lunch", "at: 'lunch' is not known; allowed: entry-received, forward-begin");
  refuses("throw stage", "'stage' is not KEY=VALUE");
  refuses("throw stage=-1", "stage: '-1' is not a whole number from 0");
  refuses("throw times=0", "times: '0' is not a whole number from 1");
  refuses("throw colour=red", "colour: unknown key; allowed: stage, window");
  refuses("hang seconds=0", "seconds: must be from 0.001 to 86400");
  refuses("hang seconds=nan", "seconds: must be");
  refuses("hang seconds=long", "'long' is not a number");
}

TEST_CASE("a fault is due at its place, as often as it says", "[fault-plan]") {
  FaultPlan plan({parse_fault("throw stage=1,window=3,micro_batch=2,at=backward,times=2", "test")});
  const StageIndex stage{1};
  CHECK(plan.reached(FaultPoint::backward, StageIndex{0}, position(3, 2)).empty());
  CHECK(plan.reached(FaultPoint::forward_end, stage, position(3, 2)).empty());
  CHECK(plan.reached(FaultPoint::backward, stage, position(2, 2)).empty());
  CHECK(plan.reached(FaultPoint::backward, stage, position(3, 1)).empty());
  CHECK(plan.reached(FaultPoint::backward, stage, position(3, 2)).size() == 1);
  CHECK(plan.outstanding().size() == 1);
  CHECK(plan.reached(FaultPoint::backward, stage, position(3, 2)).size() == 1);
  CHECK(plan.outstanding().empty());
  CHECK(plan.reached(FaultPoint::backward, stage, position(3, 2)).empty());
}

TEST_CASE("a place that a window comes to once has no micro-batch", "[fault-plan]") {
  FaultPlan plan({parse_fault("kill window=3,micro_batch=2,at=step", "test")});
  CHECK(plan.reached(FaultPoint::step, StageIndex{0}, position(3, 3)).size() == 1);
}

TEST_CASE("faults at one place are due together, in the order of the plan; a full disk once",
          "[fault-plan]") {
  FaultPlan plan;
  plan.add(parse_fault("disk-full at=step,times=5", "test"));
  plan.add(parse_fault("throw at=step", "test"));
  const auto due = plan.reached(FaultPoint::step, StageIndex{0}, position(1, 0));
  REQUIRE(due.size() == 2);
  CHECK(due.at(0).kind == FaultKind::disk_full);
  CHECK(due.at(0).times == 5);
  CHECK(due.at(1).kind == FaultKind::throws);
  CHECK(plan.outstanding().empty());
}
