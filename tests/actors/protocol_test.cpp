#include "actors/protocol.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "actors/failure.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;

namespace {

struct Config : caf::actor_system_config {
  Config() {
    set("scheduler.policy", caf::atom("testing"));
    zerolock::add_message_types(*this);
  }
};

template <class T>
T round_trip(caf::actor_system& system, const T& value) {
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  caf::message out = caf::make_message(value);
  REQUIRE_FALSE(out.save(sink));
  caf::message in;
  caf::binary_deserializer source(system, bytes);
  REQUIRE_FALSE(in.load(source));
  REQUIRE(in.match_elements<T>());
  return in.get_as<T>(0);
}

std::string shown(const WindowReport& report) {
  return caf::deep_to_string(report);
}

}  // namespace

TEST_CASE("messages that may leave the process come back as they were", "[protocol]") {
  Config config;
  caf::actor_system system(config);
  const BatchPosition position{WindowIndex{3}, 2};
  CHECK(round_trip(system, position) == position);
  CHECK(round_trip(system, StageIndex{4}) == StageIndex{4});
  CHECK(round_trip(system, Incarnation{5}) == Incarnation{5});
  CHECK((round_trip(system, EntryCredit{7, 8}) == EntryCredit{7, 8}));
  const OutputAllowance allowance{position, 1, 2, 3, 4, WindowIndex{2}, 5};
  CHECK(round_trip(system, allowance) == allowance);
  const BoundaryHello hello = round_trip(system, BoundaryHello{9, position});
  CHECK(hello.session == 9);
  CHECK(hello.first_lacking == position);
  const StageRestart restart =
      round_trip(system, StageRestart{StageIndex{1}, Incarnation{2}, WindowIndex{3}, "why"});
  CHECK(restart.cause == "why");
  CHECK(restart.window == WindowIndex{3});
  CHECK_FALSE(round_trip(system, StageRestart{StageIndex{1}, Incarnation{2}, std::nullopt, "why"}).window);
  const InboundStatistics statistics = round_trip(system, InboundStatistics{4, 5, 6, 7});
  CHECK(statistics.dropped == 4);
  CHECK(statistics.held_bytes_peak == 5);
  CHECK(statistics.waiting_entries == 6);
  CHECK(statistics.held_entries == 7);
  const OutboundStatistics outbound = round_trip(system, OutboundStatistics{8, 9});
  CHECK(outbound.unsent_entries == 8);
  CHECK(outbound.held_entries == 9);
  CHECK(round_trip(system, StageSummary{StageIndex{1}, Incarnation{2}, 3}).duplicates_dropped == 3);
  ExecutorCard card{"a", "1", 4, 5, 6};
  card.threads = 2;
  CHECK(round_trip(system, card) == card);
  const JournalRecord record{JournalRecord::Kind::run_failed, StageIndex{1}, WindowIndex{2}, "chain"};
  CHECK(round_trip(system, record) == record);
  const WindowReport report{
      StageIndex{1}, WindowIndex{2}, {1.5, 0.5, 2.0, 3, 4}, {1e-4, 0.7, 2}, std::chrono::nanoseconds(99)};
  CHECK(shown(round_trip(system, report)) == shown(report));
  const TraceSpan span{
      TraceSpan::Kind::restore,   StageIndex{1}, Incarnation{2}, position, std::chrono::nanoseconds(5),
      std::chrono::nanoseconds(6)};
  const TraceSpan returned = round_trip(system, span);
  CHECK(returned.kind == span.kind);
  CHECK(returned.end == span.end);
}

TEST_CASE("failures keep their text and their kind", "[protocol]") {
  const auto of = [](auto exception) { return to_failure(std::make_exception_ptr(exception)); };
  CHECK(cause_of(of(RunError("a\nb"))) == "a b");
  CHECK_FALSE(is_permanent(of(RunError("x"))));
  CHECK(is_bad_input(of(InputError("x"))));
  CHECK(is_permanent(make_failure(Failure::permanent, "x")));
  CHECK_FALSE(is_bad_input(make_failure(Failure::permanent, "x")));
  CHECK(is_orderly(caf::exit_reason::user_shutdown));
  CHECK(cause_of(caf::exit_reason::kill) == "it was killed");
}
