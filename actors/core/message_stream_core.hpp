#pragma once
/// A conversation that outlives its connections: messages are numbered, kept until the other side has
/// acknowledged them, and sent again from where a new connection begins. One side's half; each side has one.

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace zerolock {

struct NumberedMessage {
  std::uint64_t number = 0;  // counts from 0 for each direction
  std::string body;
  at::Tensor payload;  // raw bytes that travel beside it; may be undefined

  [[nodiscard]] std::size_t bytes() const { return body.size() + (payload.defined() ? payload.nbytes() : 0); }
};

/// How much may wait for an acknowledgement. Whoever exceeds it talks to somebody who has long been away.
struct MessageStreamBounds {
  std::size_t messages_max = std::size_t{1} << 14;
  std::size_t bytes_max = std::size_t{1} << 30;
};

/// Plain state: the caller sends what next_to_send() gives and reports what arrives.
class MessageStreamCore {
 public:
  enum class Reception : std::uint8_t {
    deliver,    // the next one: act on it
    duplicate,  // known already: changes nothing
    gap,        // some before it are missing: this connection is not what it was taken for
  };

  explicit MessageStreamCore(MessageStreamBounds bounds = {}) : bounds_(bounds) {}

  /// Returns false, and keeps nothing, if the bound is reached.
  [[nodiscard]] bool push(std::string body, at::Tensor payload = {});
  /// The next message for the connection that is open, which has then been sent; null if there is none, or no
  /// connection.
  [[nodiscard]] const NumberedMessage* next_to_send();

  /// The conversation begins anew, with somebody who knows nothing of it: both directions count from 0, and
  /// nothing is kept. Returns what was not acknowledged, oldest first.
  std::vector<NumberedMessage> restart();
  /// A connection is open; the other side lacks everything from `lacking` on. Returns false if that was never
  /// sent or is no longer kept: the two sides do not belong together.
  [[nodiscard]] bool resume(std::uint64_t lacking);
  /// The connection is gone; what was sent on it may have been lost.
  void interrupted() { connected_ = false; }
  [[nodiscard]] bool connected() const { return connected_; }

  /// The other side has everything before `lacking`. Returns false for what was never sent.
  [[nodiscard]] bool acknowledged(std::uint64_t lacking);
  [[nodiscard]] Reception received(std::uint64_t number);
  /// What this side lacks: the resume position and the acknowledgement to send.
  [[nodiscard]] std::uint64_t lacking() const { return lacking_; }
  /// Messages that wait for an acknowledgement.
  [[nodiscard]] std::size_t unacknowledged() const { return kept_.size(); }

 private:
  MessageStreamBounds bounds_;
  std::deque<NumberedMessage> kept_;  // first_kept_ .. next_number_ - 1
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_kept_ = 0;
  std::uint64_t next_number_ = 0;
  std::uint64_t next_to_send_ = 0;
  std::uint64_t lacking_ = 0;
  bool connected_ = false;
};

}  // namespace zerolock
