#include "actors/remote/control_channel.hpp"

#include <cstring>
#include <random>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/tensor_payload.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {
namespace {

constexpr std::uint32_t opening_bytes_max = 65536;
constexpr std::size_t number_bytes = sizeof(std::uint64_t);

Frame control_frame(const NumberedMessage& message) {
  Frame frame{FrameType::control, to_wire(message.number), {}};
  const auto* body = reinterpret_cast<const std::byte*>(message.body.data());
  frame.metadata.insert(frame.metadata.end(), body, body + message.body.size());
  if (message.payload.defined() && message.payload.nbytes() > 0) frame.payload = payload_of(message.payload);
  return frame;
}

}  // namespace

std::uint64_t new_conversation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device() | 1U;
}

void ControlChannel::send(const ControlMessage& message, const at::Tensor& payload) {
  if (!stream_.push(encode(message), payload)) {
    throw RunError("the other side has taken no message for too long: " +
                   std::to_string(stream_.unacknowledged()) + " wait for it");
  }
  flush();
}

Frame ControlChannel::opening(ControlOpening opening) const {
  opening.conversation = conversation_;
  opening.lacking = stream_.lacking();
  return {FrameType::request, encode(opening), {}};
}

Frame ControlChannel::welcome() const {
  return {FrameType::request, encode(ControlWelcome{conversation_, stream_.lacking()}), {}};
}

std::vector<ReceivedControl> ControlChannel::begin(std::uint64_t conversation) {
  conversation_ = conversation;
  connection_ = nullptr;
  std::vector<ReceivedControl> unheard;
  for (const NumberedMessage& message : stream_.restart()) {
    const auto* body = reinterpret_cast<const std::byte*>(message.body.data());
    unheard.push_back({decode_control({body, message.body.size()}), message.payload});
  }
  return unheard;
}

bool ControlChannel::open(std::shared_ptr<Connection> connection, std::uint64_t lacking) {
  if (!stream_.resume(lacking)) return false;
  connection_ = std::move(connection);
  flush();
  return true;
}

void ControlChannel::lost() {
  stream_.interrupted();
  connection_ = nullptr;
}

std::optional<ReceivedControl> ControlChannel::received(const Frame& frame) {
  if (frame.type == FrameType::acknowledge) {
    const auto lacking = from_wire<std::uint64_t>(frame.metadata, "acknowledgement");
    if (!stream_.acknowledged(lacking)) throw WireError("acknowledgement of what was never sent");
    return std::nullopt;
  }
  if (frame.type != FrameType::control || frame.metadata.size() < number_bytes) {
    throw WireError("control message expected, " + std::string(to_string(frame.type)) + " received");
  }
  const std::span<const std::byte> metadata(frame.metadata);
  const auto number = from_wire<std::uint64_t>(metadata.first(number_bytes), "number of a control message");
  // Decoded before it counts as received: a message that makes no sense is not acknowledged.
  ReceivedControl received{decode_control(metadata.subspan(number_bytes)), {}};
  const MessageStreamCore::Reception reception = stream_.received(number);
  if (reception == MessageStreamCore::Reception::gap) throw WireError("a control message is missing");
  if (connection_) connection_->send({FrameType::acknowledge, to_wire(stream_.lacking()), {}});
  if (reception == MessageStreamCore::Reception::duplicate) return std::nullopt;
  received.payload =
      frame.payload.size() == 0
          ? at::empty({0}, at::kByte)
          : tensor_over(frame.payload, {static_cast<std::int64_t>(frame.payload.size())}, at::kByte);
  return received;
}

/// A full queue ends the connection; whatever it had taken is sent again on the next.
void ControlChannel::flush() {
  if (!connection_) return;
  while (const NumberedMessage* message = stream_.next_to_send()) {
    if (connection_->send(control_frame(*message))) continue;
    connection_->close("the other side takes no more");
    lost();
    return;
  }
}

ConnectionOptions control_options(std::uint64_t payload_bytes_max) {
  ConnectionOptions options;
  options.bounds.allow(FrameType::request, opening_bytes_max)
      .allow(FrameType::acknowledge, number_bytes)
      .allow(FrameType::control, control_bytes_max, payload_bytes_max);
  options.send_queue_bytes = std::size_t{1} << 30;
  return options;
}

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  if (bytes.numel() == 0) return {};
  const at::Tensor plain = bytes.contiguous();
  return {static_cast<const char*>(plain.data_ptr()), static_cast<std::size_t>(plain.nbytes())};
}

}  // namespace zerolock
