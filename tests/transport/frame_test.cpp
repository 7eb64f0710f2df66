#include "transport/frame.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>

#include "transport/frame_decoder.hpp"
#include "transport/frame_encoder.hpp"
#include "transport/frame_header.hpp"
#include "transport/send_queue.hpp"

namespace zerolock {
namespace {

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Frame make_frame(FrameType type, const std::vector<std::byte>& metadata,
                 const std::vector<std::byte>& payload) {
  Frame frame{type, metadata, {}};
  if (!payload.empty()) {
    const PayloadMemory memory = allocate_payload(payload.size());
    std::copy(payload.begin(), payload.end(), memory.bytes.begin());
    frame.payload = {memory.bytes, memory.owner};
  }
  return frame;
}

/// The frame's bytes, taken from the encoder in pieces of at most `most`.
std::vector<std::byte> encoded(Frame frame, std::size_t most = SIZE_MAX) {
  FrameEncoder encoder(std::move(frame));
  std::vector<std::byte> bytes;
  while (encoder.remaining() > 0) {
    std::vector<std::span<const std::byte>> buffers;
    const std::size_t given = encoder.gather(most, buffers);
    REQUIRE(given > 0);
    REQUIRE(given <= most);
    for (const auto& buffer : buffers) bytes.insert(bytes.end(), buffer.begin(), buffer.end());
  }
  return bytes;
}

FrameBounds open_bounds() {
  FrameBounds bounds;
  return bounds.allow(FrameType::entry, 1 << 16, 1 << 24).allow(FrameType::credit, 64);
}

/// Feeds bytes in pieces of at most `most` and collects the frames.
std::vector<Frame> decoded(FrameDecoder& decoder, std::span<const std::byte> bytes,
                           std::size_t most = SIZE_MAX) {
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const std::span<std::byte> room = decoder.next_buffer();
    REQUIRE_FALSE(room.empty());
    const std::size_t count = std::min({room.size(), bytes.size(), most});
    std::memcpy(room.data(), bytes.data(), count);
    decoder.advance(count);
    bytes = bytes.subspan(count);
    while (auto frame = decoder.next_frame()) frames.push_back(std::move(*frame));
  }
  return frames;
}

FrameFault fault_of(std::span<const std::byte> bytes, const FrameBounds& bounds = open_bounds()) {
  FrameDecoder decoder(bounds);
  try {
    decoded(decoder, bytes);
  } catch (const FrameError& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.fault();
  }
  FAIL("the bytes were accepted");
  return FrameFault::foreign;
}

bool same(const Frame& frame, FrameType type, const std::vector<std::byte>& metadata,
          const std::vector<std::byte>& payload) {
  return frame.type == type && frame.metadata == metadata &&
         std::equal(frame.payload.bytes.begin(), frame.payload.bytes.end(), payload.begin(), payload.end());
}

}  // namespace

TEST_CASE("frames survive any cutting of their bytes", "[frame]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    struct Expected {
      FrameType type;
      std::vector<std::byte> metadata;
      std::vector<std::byte> payload;
    };
    std::vector<Expected> expected;
    std::vector<std::byte> bytes;
    for (int i = 0; i < 6; ++i) {
      const std::size_t payload_bytes = random() % 3 == 0 ? random() % 100000 : random() % 50;
      Expected frame{FrameType::entry, random_bytes(random, random() % (random() % 5 == 0 ? 30000 : 40)),
                     random_bytes(random, payload_bytes)};
      if (i % 3 == 2) frame = {FrameType::beat, {}, {}};
      const auto written =
          encoded(make_frame(frame.type, frame.metadata, frame.payload), 1 + random() % 50000);
      REQUIRE(written.size() == frame_overhead_bytes + frame.metadata.size() + frame.payload.size());
      bytes.insert(bytes.end(), written.begin(), written.end());
      expected.push_back(std::move(frame));
    }
    FrameDecoder decoder(open_bounds());
    const std::vector<Frame> frames = decoded(decoder, bytes, round == 0 ? 1 : 1 + random() % 70000);
    CHECK(decoder.between_frames());
    REQUIRE(frames.size() == expected.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      CHECK(same(frames[i], expected[i].type, expected[i].metadata, expected[i].payload));
    }
  }
}

TEST_CASE("a payload is read into the memory that the allocator gave", "[frame]") {
  std::mt19937_64 random(1);
  const auto payload = random_bytes(random, 200000);
  const std::byte* given = nullptr;
  std::size_t allocations = 0;
  FrameDecoder decoder(open_bounds(), [&](std::size_t bytes) {
    PayloadMemory memory = allocate_payload(bytes);
    given = memory.bytes.data();
    ++allocations;
    return memory;
  });
  const auto bytes = encoded(make_frame(FrameType::entry, {}, payload));
  const auto frames = decoded(decoder, bytes, 65536);
  REQUIRE(frames.size() == 1);
  CHECK(allocations == 1);
  CHECK(frames[0].payload.bytes.data() == given);
  CHECK(reinterpret_cast<std::uintptr_t>(given) % 64 == 0);
  CHECK(same(frames[0], FrameType::entry, {}, payload));
}

TEST_CASE("the payload is not copied on its way out", "[frame]") {
  const Frame frame = make_frame(FrameType::entry, {}, std::vector<std::byte>(5000));
  const std::byte* payload = frame.payload.bytes.data();
  FrameEncoder encoder(frame);
  std::vector<std::span<const std::byte>> buffers;
  encoder.gather(SIZE_MAX, buffers);
  REQUIRE(buffers.size() == 3);
  CHECK(buffers[1].data() == payload);
}

TEST_CASE("every flipped bit of a frame is noticed", "[frame]") {
  std::mt19937_64 random(7);
  const auto good = encoded(make_frame(FrameType::entry, random_bytes(random, 20), random_bytes(random, 40)));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameDecoder decoder(open_bounds());
    CHECK_THROWS_AS(decoded(decoder, bytes), FrameError);
  }
}

TEST_CASE("what is wrong with bytes is named", "[frame]") {
  const auto good = encoded(make_frame(FrameType::entry, std::vector<std::byte>(10), {}));
  SECTION("another protocol, known by its first byte") {
    const std::string http = "GET / HTTP/1.1\r\n\r\n";
    CHECK(fault_of(std::as_bytes(std::span(http))) == FrameFault::foreign);
    CHECK(fault_of(std::as_bytes(std::span(http)).first(1)) == FrameFault::foreign);
  }
  SECTION("another version") {
    auto bytes = good;
    bytes[4] = std::byte{2};
    CHECK(fault_of(bytes) == FrameFault::other_version);
  }
  SECTION("a damaged header") {
    auto bytes = good;
    bytes[9] ^= std::byte{1};
    CHECK(fault_of(bytes) == FrameFault::damaged_header);
  }
  SECTION("a damaged body") {
    auto bytes = good;
    bytes[frame_header_bytes] ^= std::byte{1};
    CHECK(fault_of(bytes) == FrameFault::damaged);
  }
  SECTION("an unknown type with a good checksum") {
    CHECK(fault_of(write_frame_header({static_cast<FrameType>(200), 0, 0})) == FrameFault::unknown_type);
    CHECK(fault_of(write_frame_header({static_cast<FrameType>(0), 0, 0})) == FrameFault::unknown_type);
  }
  SECTION("a type that has no place") {
    CHECK(fault_of(write_frame_header({FrameType::part, 0, 0})) == FrameFault::unexpected_type);
  }
}

TEST_CASE("lengths above the bounds are refused before memory is asked for", "[frame]") {
  std::size_t allocations = 0;
  const auto counting = [&](std::size_t bytes) {
    ++allocations;
    return allocate_payload(bytes);
  };
  const std::uint64_t four_gibibytes = std::uint64_t{4} << 30;
  for (const FrameHeader header :
       {FrameHeader{FrameType::entry, 0, four_gibibytes}, FrameHeader{FrameType::entry, 0xffffffffU, 0},
        FrameHeader{FrameType::entry, 0, ~std::uint64_t{0}}, FrameHeader{FrameType::entry, 0, (1 << 24) + 1},
        FrameHeader{FrameType::credit, 0, 1}, FrameHeader{FrameType::beat, 1, 0}}) {
    FrameDecoder decoder(open_bounds(), counting);
    try {
      decoded(decoder, write_frame_header(header));
      FAIL("accepted");
    } catch (const FrameError& error) {
      CHECK(error.fault() == FrameFault::too_long);
    }
  }
  CHECK(allocations == 0);
}

TEST_CASE("credits overtake entries that were not begun, and nothing else changes places", "[send-queue]") {
  SendQueue queue(100000);
  const SendQueue::TimePoint now{};
  const auto push = [&](FrameType type, std::uint8_t mark) {
    return queue.push({type, {std::byte{mark}}, {}}, now);
  };
  CHECK(push(FrameType::entry, 1) == SendQueue::Push::taken_by_empty_queue);
  CHECK(push(FrameType::blocked, 2) == SendQueue::Push::taken);
  push(FrameType::credit, 3);
  push(FrameType::entry, 4);
  push(FrameType::control, 5);
  CHECK(queue.close_with({FrameType::bye, {std::byte{6}}, {}}, now));
  CHECK(push(FrameType::credit, 7) == SendQueue::Push::refused);
  std::vector<int> order;
  while (auto queued = queue.pop()) order.push_back(std::to_integer<int>(queued->frame.metadata[0]));
  CHECK(order == std::vector<int>{3, 5, 1, 2, 4, 6});
}

TEST_CASE("a queue is bounded until its frames are written", "[send-queue]") {
  const Frame frame = make_frame(FrameType::entry, {}, std::vector<std::byte>(1000));
  SendQueue queue(2 * frame.wire_bytes());
  CHECK(queue.push(frame, {}) == SendQueue::Push::taken_by_empty_queue);
  CHECK(queue.push(frame, {}) == SendQueue::Push::taken);
  CHECK(queue.push(frame, {}) == SendQueue::Push::refused);
  CHECK(queue.pop());
  CHECK(queue.push(frame, {}) == SendQueue::Push::refused);
  queue.written(frame.wire_bytes());
  CHECK(queue.push(frame, {}) == SendQueue::Push::taken);
  CHECK(queue.bytes() == 2 * frame.wire_bytes());
}

}  // namespace zerolock
