#pragma once
/// One side's half of the conversation between coordinator and executor, over whatever connection there is.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/message_stream_core.hpp"
#include "actors/remote/control_message.hpp"
#include "transport/connection.hpp"

namespace zerolock {

/// A message with the bytes beside it (uint8 [n], empty if there are none).
struct ReceivedControl {
  ControlMessage message;
  at::Tensor payload;
};

using control_atom = caf::atom_constant<caf::atom("control")>;  // link -> its owner, or back: to pass on

/// The number of a conversation that is to begin: random, never 0.
std::uint64_t new_conversation();

/// Owned by an actor, which hands it the frames of the connection.
class ControlChannel {
 public:
  explicit ControlChannel(MessageStreamBounds bounds = {}) : stream_(bounds) {}

  /// Sends now, or as soon as there is a connection. Throws RunError if more waits than the bound allows: the
  /// other side has long been away.
  void send(const ControlMessage& message, const at::Tensor& payload = {});

  /// This side's first words on a connection that it dialled: `opening`, with this side's part of the
  /// conversation filled in; and the answer to such words.
  [[nodiscard]] Frame opening(ControlOpening opening) const;
  [[nodiscard]] Frame welcome() const;

  /// Begins another conversation. Returns what was not acknowledged in the one before, oldest first.
  std::vector<ReceivedControl> begin(std::uint64_t conversation);
  /// 0: none yet.
  [[nodiscard]] std::uint64_t conversation() const { return conversation_; }

  /// A connection is agreed to; the other side lacks what follows `lacking`. Returns false if the two
  /// conversations do not belong together.
  [[nodiscard]] bool open(std::shared_ptr<Connection> connection, std::uint64_t lacking);
  /// The connection is gone.
  void lost();
  [[nodiscard]] bool is_open() const { return connection_ != nullptr; }

  /// Looks at a frame of the open connection. Nothing if it was an acknowledgement or is known already.
  /// Throws WireError for what makes no sense.
  std::optional<ReceivedControl> received(const Frame& frame);
  /// Everything that was sent has arrived.
  [[nodiscard]] bool settled() const { return stream_.unacknowledged() == 0; }

 private:
  void flush();

  MessageStreamCore stream_;
  std::uint64_t conversation_ = 0;
  std::shared_ptr<Connection> connection_;
};

/// What each side of a control connection takes from the other; `payload_bytes_max`: of the bytes beside one
/// message.
ConnectionOptions control_options(std::uint64_t payload_bytes_max);

/// Bytes of a text beside a message, and back.
at::Tensor bytes_of(const std::string& text);
std::string text_of(const at::Tensor& bytes);

}  // namespace zerolock

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(zerolock::ReceivedControl)
