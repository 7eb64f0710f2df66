#include "transport/link_profile.hpp"

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"

namespace zerolock {

using namespace std::chrono_literals;
using TimePoint = LinkSchedule::TimePoint;

TEST_CASE("link profiles have names and numbers", "[link]") {
  CHECK_FALSE(parse_link_profile("local", "--link").shapes());
  CHECK(parse_link_profile("wifi", "--link") == LinkProfile{2ms, 125000000});
  CHECK(parse_link_profile("mobile", "--link") == LinkProfile{10ms, 25000000});
  CHECK(parse_link_profile("constrained", "--link") == LinkProfile{30ms, 6250000});
  CHECK(parse_link_profile("30ms,50Mbit", "--link") == LinkProfile{30ms, 6250000});
  CHECK(parse_link_profile("0ms,1kB", "--link") == LinkProfile{0ms, 1000});
  CHECK(parse_link_profile("250us,2.5Gbit", "--link") == LinkProfile{250us, 312500000});
  for (const char* text : {"local", "wifi", "constrained", "1.5ms,3MB"}) {
    const LinkProfile profile = parse_link_profile(text, "--link");
    CHECK(parse_link_profile(to_string(profile), "--link") == profile);
  }
  for (const char* text : {"", "dsl", "30ms", "30,50Mbit", "30ms,50", "-1ms,50Mbit", "30ms,0Mbit",
                           "nanms,1MB", "2s,1MB", "1ms,1e30MB", "1ms,1MB,3"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_link_profile(text, "--link"), InputError);
  }
}

TEST_CASE("latency delays each piece and never lowers the rate", "[link]") {
  LinkSchedule schedule({30ms, 1000});
  const TimePoint start{};
  // Ten pieces of 100 ms each, all ready at once: they arrive 100 ms apart, the first after 130 ms.
  for (int i = 1; i <= 10; ++i) CHECK(schedule.transmit(start, 100) == start + i * 100ms + 30ms);
  CHECK(schedule.free_at() == start + 1s);
  // After a pause the link is free: nothing is saved up, nothing is owed.
  CHECK(schedule.transmit(start + 5s, 100) == start + 5s + 130ms);
}

TEST_CASE("a late sender loses nothing while bytes were waiting", "[link]") {
  LinkSchedule schedule({0ms, 1000});
  const TimePoint start{};
  schedule.transmit(start, 100);
  // The second piece was ready at the start, whenever it is asked for.
  CHECK(schedule.transmit(start, 100) == start + 200ms);
}

TEST_CASE("pieces suit the rate", "[link]") {
  CHECK(LinkSchedule({}).piece_bytes() == 256 * 1024);
  CHECK(LinkSchedule({1ms, 1000}).piece_bytes() == 32);
  CHECK(LinkSchedule({1ms, 6250000}).piece_bytes() == 125000);
  // A rate without limit: latency alone.
  LinkSchedule schedule({30ms, 0});
  CHECK(schedule.transmit(TimePoint{}, 1 << 20) == TimePoint{} + 30ms);
  CHECK(schedule.free_at() == TimePoint{});
}

}  // namespace zerolock
