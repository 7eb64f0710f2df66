#include "actors/core/message_stream_core.hpp"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace zerolock {
namespace {

using Reception = MessageStreamCore::Reception;

TEST_CASE("messages wait for a connection and are sent once on it", "[message stream]") {
  MessageStreamCore stream;
  REQUIRE(stream.push("a"));
  CHECK(stream.next_to_send() == nullptr);
  REQUIRE(stream.resume(0));
  REQUIRE(stream.push("b"));
  CHECK(stream.next_to_send()->body == "a");
  CHECK(stream.next_to_send()->body == "b");
  CHECK(stream.next_to_send() == nullptr);
  CHECK(stream.unacknowledged() == 2);
  CHECK(stream.acknowledged(1));
  CHECK(stream.unacknowledged() == 1);
}

TEST_CASE("a new connection begins with what the other side lacks", "[message stream]") {
  MessageStreamCore stream;
  REQUIRE(stream.resume(0));
  for (const char* body : {"a", "b", "c"}) REQUIRE(stream.push(body));
  while (stream.next_to_send() != nullptr) continue;
  stream.interrupted();
  CHECK(stream.next_to_send() == nullptr);
  REQUIRE(stream.resume(1));
  CHECK(stream.next_to_send()->number == 1);
  CHECK(stream.next_to_send()->body == "c");
  CHECK_FALSE(stream.resume(0));  // no longer kept
  CHECK_FALSE(stream.resume(4));  // never sent
  CHECK_FALSE(stream.acknowledged(4));
}

TEST_CASE("the bound holds for messages and for bytes", "[message stream]") {
  MessageStreamCore few({2, 1000});
  CHECK(few.push("a"));
  CHECK(few.push("b"));
  CHECK_FALSE(few.push("c"));
  MessageStreamCore small({100, 20});
  CHECK(small.push("word", at::zeros({2}, at::kLong)));
  CHECK_FALSE(small.push("a"));
  CHECK(small.unacknowledged() == 1);
  REQUIRE(small.resume(0));
  CHECK(small.acknowledged(1));
  CHECK(small.push("a"));
}

TEST_CASE("a receiver delivers each message once and notices a gap", "[message stream]") {
  MessageStreamCore stream;
  CHECK(stream.received(0) == Reception::deliver);
  CHECK(stream.received(0) == Reception::duplicate);
  CHECK(stream.received(2) == Reception::gap);
  CHECK(stream.received(1) == Reception::deliver);
  CHECK(stream.lacking() == 2);
}

TEST_CASE("whatever connections break, all messages arrive once and in order", "[message stream]") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    MessageStreamCore sender;
    MessageStreamCore receiver;
    std::deque<NumberedMessage> wire;
    std::deque<std::uint64_t> back;
    std::vector<std::string> delivered;
    constexpr std::uint64_t total = 40;
    std::uint64_t pushed = 0;
    for (std::uint64_t step = 0; delivered.size() < total; ++step) {
      REQUIRE(step < 100'000);
      switch (random() % 6) {
        case 0:
          if (pushed < total) REQUIRE(sender.push(std::to_string(pushed++)));
          break;
        case 1:
          if (const NumberedMessage* message = sender.next_to_send()) wire.push_back(*message);
          break;
        case 2:
          if (!wire.empty()) {
            const Reception reception = receiver.received(wire.front().number);
            REQUIRE(reception != Reception::gap);
            if (reception == Reception::deliver) delivered.push_back(wire.front().body);
            wire.pop_front();
          }
          break;
        case 3:
          back.push_back(receiver.lacking());
          break;
        case 4:
          if (!back.empty() && sender.connected()) {
            // Acknowledgements of an earlier connection are lost with it, so they never go back.
            REQUIRE(sender.acknowledged(back.front()));
            back.pop_front();
          }
          break;
        default:
          if (random() % 4 != 0) break;
          wire.clear();
          back.clear();
          sender.interrupted();
          REQUIRE(sender.resume(receiver.lacking()));
      }
      if (!sender.connected()) REQUIRE(sender.resume(receiver.lacking()));
    }
    for (std::uint64_t i = 0; i < total; ++i) CHECK(delivered[i] == std::to_string(i));
  }
}

TEST_CASE("a conversation that begins anew counts from the start and gives back what was not heard",
          "[message stream]") {
  MessageStreamCore core;
  REQUIRE(core.push("a"));
  REQUIRE(core.push("b"));
  REQUIRE(core.resume(0));
  REQUIRE(core.next_to_send() != nullptr);
  REQUIRE(core.acknowledged(1));
  REQUIRE(core.received(0) == MessageStreamCore::Reception::deliver);
  const auto unheard = core.restart();
  REQUIRE(unheard.size() == 1);
  CHECK(unheard.front().body == "b");
  CHECK_FALSE(core.connected());
  CHECK(core.lacking() == 0);
  REQUIRE(core.push("c"));
  REQUIRE(core.resume(0));
  CHECK(core.next_to_send()->number == 0);
}

}  // namespace
}  // namespace zerolock
