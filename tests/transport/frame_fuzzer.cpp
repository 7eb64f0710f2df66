/// Any bytes at all, given to everything that reads what a peer sent. Built by scripts/fuzz-frames with
/// clang's libFuzzer; not part of the tests.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "transport/checksum.hpp"
#include "transport/frame_decoder.hpp"
#include "transport/frame_encoder.hpp"
#include "transport/frame_header.hpp"
#include "transport/hello.hpp"
#include "transport/packed_numbers.hpp"

namespace {

using namespace zerolock;

constexpr std::uint64_t payload_bytes_max = 1 << 20;
constexpr std::uint32_t metadata_bytes_max = 1 << 16;

void require(bool good) {
  if (!good) std::abort();
}

/// The input, read as numbers and bytes; zeros after its end.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  template <class Number>
  Number number() {
    Number value = 0;
    const auto taken = take(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

void append(std::vector<std::byte>& stream, std::span<const std::byte> bytes) {
  stream.insert(stream.end(), bytes.begin(), bytes.end());
}

/// A stream in which checksums may be right, so that what lies behind them is reached: raw bytes, headers
/// with chosen fields, whole frames.
std::vector<std::byte> make_stream(Input& input) {
  std::vector<std::byte> stream;
  while (!input.empty()) {
    const auto kind = input.number<std::uint8_t>();
    if (kind % 4 == 0) {
      append(stream, input.take(input.number<std::uint8_t>()));
    } else if (kind % 4 == 1) {
      FrameHeader header;
      header.type = static_cast<FrameType>(input.number<std::uint8_t>());
      header.metadata_bytes = input.number<std::uint32_t>();
      header.payload_bytes = input.number<std::uint64_t>();
      append(stream, write_frame_header(header));
    } else {
      const auto type = static_cast<FrameType>(1 + input.number<std::uint8_t>() % frame_type_count);
      const auto metadata = input.take(input.number<std::uint8_t>() * (kind % 4 == 3 ? 16U : 1U));
      const auto payload = input.take(input.number<std::uint16_t>());
      FrameEncoder encoder({type, {metadata.begin(), metadata.end()}, {payload, nullptr}});
      std::vector<std::span<const std::byte>> buffers;
      encoder.gather(encoder.remaining(), buffers);
      for (const auto& buffer : buffers) append(stream, buffer);
    }
  }
  return stream;
}

/// Reads a frame's metadata as everything that it could be.
void read_metadata(const Frame& frame) {
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const WireError& error) {
      require(std::string(error.what()).find('\n') == std::string::npos);
    }
  };
  attempt([&] { read_hello(frame.metadata); });
  attempt([&] { read_welcome(frame.metadata); });
  attempt([&] { read_refusal(frame.metadata); });
  attempt([&] { (void)from_wire<std::string>(frame.metadata, "bye"); });
  attempt([&] { (void)from_wire<std::vector<std::vector<std::string>>>(frame.metadata, "texts"); });
  attempt([&] {
    WireReader reader(frame.metadata, "numbers");
    for (const std::int64_t number : read_packed(reader, 500, 60000)) require(number >= 0 && number <= 60000);
  });
}

/// What came out of a stream: the frames' checksums, and how it ended.
struct Outcome {
  std::vector<std::uint64_t> frames;
  int fault = -1;

  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::span<const std::byte> stream, std::size_t piece) {
  FrameBounds bounds;
  for (std::size_t type = 1; type <= frame_type_count; ++type) {
    if (type % 3 != 0) bounds.allow(static_cast<FrameType>(type), metadata_bytes_max, payload_bytes_max);
  }
  FrameDecoder decoder(bounds, [](std::size_t bytes) {
    require(bytes <= payload_bytes_max);
    return allocate_payload(bytes);
  });
  Outcome outcome;
  try {
    while (!stream.empty()) {
      const auto room = decoder.next_buffer();
      require(!room.empty());
      const std::size_t count = std::min({room.size(), stream.size(), piece});
      std::memcpy(room.data(), stream.data(), count);
      decoder.advance(count);
      stream = stream.subspan(count);
      while (const auto frame = decoder.next_frame()) {
        require(frame->metadata.size() <= metadata_bytes_max);
        outcome.frames.push_back(checksum_of(frame->metadata) ^ checksum_of(frame->payload.bytes) ^
                                 static_cast<std::uint64_t>(frame->type));
        if (piece == SIZE_MAX) read_metadata(*frame);
      }
    }
  } catch (const FrameError& error) {
    outcome.fault = static_cast<int>(error.fault());
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(std::as_bytes(std::span(data, size)));
  const std::size_t piece = 1 + input.number<std::uint16_t>() % 9000;
  const std::vector<std::byte> stream = make_stream(input);
  // However the bytes are cut, the same comes out.
  require(decode(stream, SIZE_MAX) == decode(stream, piece));
  return 0;
}
