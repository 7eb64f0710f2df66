// Who must be here before the stages of a run are placed, and when waiting is over.

#include "actors/core/first_placement.hpp"

#include <catch2/catch.hpp>

namespace zerolock {
namespace {

using std::chrono::seconds;

FirstPlacement waiting_for(std::uint64_t wanted, std::set<std::string> awaited) {
  return {{wanted, std::move(awaited), seconds(60), 2}, seconds(100)};
}

}  // namespace

TEST_CASE("stages are placed once enough executors are here, those that were named among them") {
  const FirstPlacement any = waiting_for(2, {});
  CHECK_FALSE(any.ready(1, {"a"}));
  CHECK(any.ready(2, {"a", "b"}));
  const FirstPlacement named = waiting_for(2, {"b", "c"});
  CHECK_FALSE(named.ready(2, {"a", "b"}));
  CHECK(named.ready(2, {"b", "c"}));
  CHECK(named.ready(2, {"a", "b", "c"}));
  CHECK_FALSE(named.ready(1, {"b", "c"}));  // one of them is a spare
}

TEST_CASE("only executors that were here before are waited for with an end") {
  CHECK_FALSE(waiting_for(2, {}).over({}, seconds(100'000)));
  const FirstPlacement named = waiting_for(2, {"b", "c"});
  CHECK_FALSE(named.over({"b"}, seconds(159)));
  CHECK(named.over({"b"}, seconds(160)) ==
        "the layers were cut for executor c, which did not come again within 60 s");
  CHECK_FALSE(named.over({"c", "b"}, seconds(160)));
}

TEST_CASE("a run whose executors are lost again and again does not begin") {
  FirstPlacement placement = waiting_for(1, {});
  CHECK_FALSE(placement.lost("a fell"));
  CHECK_FALSE(placement.lost("a fell"));
  CHECK(placement.lost("b fell") ==
        "executors were lost 3 times before the run began, the last time because b fell");
}

}  // namespace zerolock
