#include <ATen/ATen.h>

#include "actors/core/batch_source_core.hpp"
#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/core/outbound_buffer_core.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;

namespace {

Entry entry_at(std::uint64_t window, std::uint64_t micro_batch, std::uint64_t producer = 1,
               std::int64_t numbers = 2) {
  Entry entry;
  entry.position = {WindowIndex{window}, micro_batch};
  entry.producer = Incarnation{producer};
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, numbers};
  entry.layout = layout;
  entry.payload = at::zeros({numbers}, at::kDouble);
  return entry;
}

std::uint64_t two(WindowIndex) {
  return 2;
}

HiddenStateBufferCore inbound(std::uint64_t depth, std::uint64_t bytes,
                              CheckpointSchedule schedule = {1, {9}}) {
  HiddenStateBufferCore core({StageIndex{1}, WindowIndex{0}, depth, bytes, schedule, two});
  core.open_session(1);
  return core;
}

}  // namespace

TEST_CASE("only the next entry of the highest incarnation is received", "[inbound]") {
  auto core = inbound(4, 1000);
  CHECK(core.receive(1, entry_at(1, 1)) == Reception::gap);
  CHECK(core.receive(2, entry_at(1, 0)) == Reception::other_session);
  CHECK(core.receive(1, entry_at(1, 0, 2)) == Reception::accepted);
  CHECK(core.receive(1, entry_at(1, 0, 2)) == Reception::known_position);
  CHECK(core.receive(1, entry_at(1, 1, 1)) == Reception::earlier_incarnation);
  CHECK(core.receive(1, entry_at(1, 1, 3)) == Reception::accepted);
  CHECK(core.dropped() == 4);
  CHECK(core.held_entries() == 2);
  CHECK((core.next_expected() == BatchPosition{WindowIndex{2}, 0}));
}

TEST_CASE("credit is the depth less what waits, and comes back when an entry is taken", "[inbound]") {
  auto core = inbound(2, 1000);
  CHECK(core.credit().entries_total == 2);
  REQUIRE(core.receive(1, entry_at(1, 0)) == Reception::accepted);
  REQUIRE(core.receive(1, entry_at(1, 1)) == Reception::accepted);
  CHECK(core.credit().entries_total == 2);
  REQUIRE(core.take() != nullptr);
  CHECK(core.credit().entries_total == 3);
  CHECK(core.held_entries() == 2);  // kept for a restart
}

TEST_CASE("credit is worth a message once half of it is used", "[inbound]") {
  auto core = inbound(4, 1000);
  const EntryCredit announced = core.credit();
  REQUIRE(core.receive(1, entry_at(1, 0)) == Reception::accepted);
  REQUIRE(core.take() != nullptr);
  CHECK(core.credit().entries_total == 5);
  CHECK_FALSE(core.worth_announcing(announced));  // three of five are left
  REQUIRE(core.receive(1, entry_at(1, 1)) == Reception::accepted);
  REQUIRE(core.take() != nullptr);
  CHECK(core.worth_announcing(announced));
  CHECK_FALSE(core.worth_announcing(core.credit()));
  CHECK(inbound(1, 1000).worth_announcing({}));
}

TEST_CASE("a restarted worker is fed again from its buffer, without more in flight", "[inbound]") {
  auto core = inbound(2, 1000);
  for (std::uint64_t w = 1; w <= 2; ++w) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      REQUIRE(core.receive(1, entry_at(w, i)) == Reception::accepted);
      REQUIRE(core.take()->position == BatchPosition{WindowIndex{w}, i});
    }
  }
  core.made_durable(WindowIndex{1});
  const auto credit = core.credit();
  core.rewind(WindowIndex{1});
  CHECK(core.credit() == credit);
  CHECK(core.take()->position == BatchPosition{WindowIndex{2}, 0});
  CHECK(core.take()->position == BatchPosition{WindowIndex{2}, 1});
  CHECK(core.take() == nullptr);
  CHECK_THROWS_AS(core.rewind(WindowIndex{0}), std::logic_error);
  CHECK_THROWS_AS(core.rewind(WindowIndex{3}), std::logic_error);
}

TEST_CASE("the inbound byte bound holds and is promised as credit", "[inbound]") {
  auto core = inbound(8, 40);  // an entry has 16 bytes
  CHECK(core.credit().bytes_total == 40);
  REQUIRE(core.receive(1, entry_at(1, 0)) == Reception::accepted);
  REQUIRE(core.receive(1, entry_at(1, 1)) == Reception::accepted);
  CHECK(core.credit().bytes_total == 40);
  CHECK(core.receive(1, entry_at(2, 0)) == Reception::over_bound);
  CHECK(core.held_bytes_peak() == 32);
  const BatchPosition next{WindowIndex{2}, 0};
  CHECK_FALSE(core.blocked_for_good(next, 16) == (next.window > WindowIndex{1}));
  core.made_durable(WindowIndex{1});
  CHECK(core.held_bytes() == 0);
}

TEST_CASE("an entry that its own checkpoint needs room for blocks for good", "[inbound]") {
  auto every_two = inbound(8, 40, {2, {9}});
  REQUIRE(every_two.receive(1, entry_at(1, 0)) == Reception::accepted);
  REQUIRE(every_two.receive(1, entry_at(1, 1)) == Reception::accepted);
  CHECK(every_two.blocked_for_good({WindowIndex{2}, 0}, 16));
  auto every_one = inbound(8, 40, {1, {9}});
  REQUIRE(every_one.receive(1, entry_at(1, 0)) == Reception::accepted);
  REQUIRE(every_one.receive(1, entry_at(1, 1)) == Reception::accepted);
  CHECK_FALSE(every_one.blocked_for_good({WindowIndex{2}, 0}, 16));
}

TEST_CASE("outbound entries wait for credit and stay until the recovery line passes", "[outbound]") {
  OutboundBufferCore core({StageIndex{0}, WindowIndex{0}, 1000, two});
  REQUIRE(core.resume({WindowIndex{1}, 0}));
  REQUIRE(core.put(entry_at(1, 0)));
  CHECK(core.next_to_send() == nullptr);
  CHECK(core.allowance().allowed_entries == 1);  // as many as were accepted: none is free
  core.credit({2, 1000});
  REQUIRE(core.next_to_send() != nullptr);
  CHECK(core.allowance().allowed_entries == 2);
  REQUIRE(core.put(entry_at(1, 1)));
  REQUIRE(core.next_to_send()->position == BatchPosition{WindowIndex{1}, 1});
  CHECK(core.held_entries() == 2);
  core.recovery_line(WindowIndex{1});
  CHECK(core.held_entries() == 0);
}

TEST_CASE("outputs that were made again are dropped, and gaps are refused", "[outbound]") {
  OutboundBufferCore core({StageIndex{0}, WindowIndex{0}, 1000, two});
  REQUIRE(core.resume({WindowIndex{1}, 0}));
  REQUIRE(core.put(entry_at(1, 0)));
  REQUIRE(core.put(entry_at(1, 0, 2)));
  CHECK(core.dropped() == 1);
  CHECK(core.held_entries() == 1);
  CHECK_THROWS_AS(static_cast<void>(core.put(entry_at(2, 0))), std::logic_error);
}

TEST_CASE("a downstream that connects anew gets what it lacks and nothing before", "[outbound]") {
  OutboundBufferCore core({StageIndex{0}, WindowIndex{0}, 1000, two});
  REQUIRE(core.resume({WindowIndex{1}, 0}));
  core.credit({4, 1000});
  for (std::uint64_t i = 0; i < 4; ++i) {
    REQUIRE(core.put(entry_at(1 + i / 2, i % 2)));
    REQUIRE(core.next_to_send() != nullptr);
  }
  REQUIRE(core.resume({WindowIndex{1}, 1}));
  CHECK(core.next_to_send() == nullptr);  // credit starts again
  core.credit({1, 1000});
  CHECK(core.next_to_send()->position == BatchPosition{WindowIndex{1}, 1});
  CHECK(core.next_to_send() == nullptr);
  core.recovery_line(WindowIndex{1});
  CHECK_FALSE(core.resume({WindowIndex{1}, 1}));  // gone
  CHECK(core.resume({WindowIndex{2}, 0}));
}

TEST_CASE("what a downstream lacks is sent even if the recovery line passes it meanwhile", "[outbound]") {
  OutboundBufferCore core({StageIndex{0}, WindowIndex{0}, 1000, two});
  REQUIRE(core.resume({WindowIndex{1}, 0}));
  core.credit({4, 1000});
  for (std::uint64_t i = 0; i < 2; ++i) {
    REQUIRE(core.put(entry_at(1, i)));
    REQUIRE(core.next_to_send() != nullptr);
  }
  REQUIRE(core.resume({WindowIndex{1}, 0}));  // its checkpoint of window 1 was damaged
  core.recovery_line(WindowIndex{1});
  core.credit({4, 1000});
  CHECK(core.next_to_send()->position == BatchPosition{WindowIndex{1}, 0});
  CHECK(core.next_to_send()->position == BatchPosition{WindowIndex{1}, 1});
  CHECK(core.next_to_send() == nullptr);
  CHECK(core.held_entries() == 0);
}

TEST_CASE("the outbound byte bound refuses, and bytes of credit are kept to", "[outbound]") {
  OutboundBufferCore core({StageIndex{0}, WindowIndex{0}, 40, two});
  REQUIRE(core.resume({WindowIndex{1}, 0}));
  core.credit({9, 20});
  REQUIRE(core.put(entry_at(1, 0)));
  REQUIRE(core.next_to_send() != nullptr);
  REQUIRE(core.put(entry_at(1, 1)));
  CHECK(core.next_to_send() == nullptr);
  REQUIRE(core.lacking_bytes() != nullptr);
  CHECK(core.lacking_bytes()->position == BatchPosition{WindowIndex{1}, 1});
  CHECK_FALSE(core.put(entry_at(2, 0)));
  CHECK(core.held_bytes_peak() == 32);
  CHECK(core.allowance().allowed_bytes == 40);
}

TEST_CASE("the batch source keeps to grant and credit and starts again where it is told", "[source]") {
  BatchSourceCore core(two);
  CHECK_FALSE(core.next().has_value());
  core.grant(WindowIndex{1});
  core.resume({WindowIndex{1}, 0});
  CHECK_FALSE(core.next().has_value());
  core.credit({3, 48});
  REQUIRE(core.next().has_value());
  REQUIRE(core.sent(16));
  REQUIRE(core.sent(16));
  CHECK_FALSE(core.next().has_value());  // window 2 is not granted
  core.grant(WindowIndex{2});
  REQUIRE((core.next() == BatchPosition{WindowIndex{2}, 0}));
  CHECK_FALSE(core.sent(17));
  CHECK(core.sent(16));
  CHECK_FALSE(core.next().has_value());  // credit is used up
  core.resume({WindowIndex{1}, 1});
  core.credit({1, 16});
  CHECK((core.next() == BatchPosition{WindowIndex{1}, 1}));
}
