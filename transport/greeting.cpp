#include "transport/greeting.hpp"

#include <utility>
#include <vector>

#include "transport/frame_encoder.hpp"

namespace zerolock {

namespace {

std::vector<std::byte> bytes_of(Frame frame) {
  const std::size_t count = frame.wire_bytes();
  FrameEncoder encoder(std::move(frame));
  std::vector<std::span<const std::byte>> buffers;
  encoder.gather(count, buffers);
  std::vector<std::byte> bytes;
  bytes.reserve(count);
  for (const std::span<const std::byte> buffer : buffers) {
    bytes.insert(bytes.end(), buffer.begin(), buffer.end());
  }
  return bytes;
}

}  // namespace

Greeting::Greeting(std::unique_ptr<SocketChannel> channel, std::optional<Frame> own_frame,
                   std::function<std::string(const std::optional<NodeIdentity>&)> check_peer,
                   std::function<void(GreetingEnd)> done)
    : channel_(std::move(channel)),
      timer_(channel_->loop->context()),
      check_peer_(std::move(check_peer)),
      done_(std::move(done)) {
  if (own_frame) unwritten_ = bytes_of(std::move(*own_frame));
}

void Greeting::start(Clock::time_point deadline) {
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->fail(DialFailure::Kind::timed_out, "no answer in time");
  });
  channel_->loop->add(shared_from_this());
  advance();
}

void Greeting::advance() {
  while (channel_ != nullptr) {
    bool more = false;
    switch (step_) {
      case Step::handshake:
        more = advance_handshake();
        break;
      case Step::write:
        more = advance_write();
        break;
      case Step::read:
        more = advance_read();
        break;
    }
    if (!more) return;
  }
}

bool Greeting::advance_handshake() {
  if (!proceed(channel_->stream->handshake())) return false;
  const std::string objection = check_peer_(channel_->stream->certified_peer());
  if (!objection.empty()) {
    fail(DialFailure::Kind::security, objection);
    return false;
  }
  step_ = Step::write;
  return true;
}

bool Greeting::advance_write() {
  if (unwritten_.empty()) {
    step_ = Step::read;
    return true;
  }
  StreamResult result = channel_->stream->write({unwritten_});
  if (result.state == StreamState::failed || result.state == StreamState::ended) {
    // The peer may have said why before it closed.
    std::byte ignored{};
    StreamResult last_words = channel_->stream->read({&ignored, 1});
    if (last_words.about_security) result = std::move(last_words);
  }
  const std::size_t written = result.bytes;
  if (!proceed(std::move(result))) return false;
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(written));
  return true;
}

bool Greeting::advance_read() {
  StreamResult result = channel_->stream->read(channel_->decoder.next_buffer());
  const std::size_t count = result.bytes;
  if (!proceed(std::move(result))) return false;
  try {
    channel_->decoder.advance(count);
    std::optional<Frame> frame = channel_->decoder.next_frame();
    if (!frame) return true;
    if (frame->type == FrameType::beat || frame->type == FrameType::bye) {
      fail(DialFailure::Kind::protocol, "the peer began with the wrong words");
      return false;
    }
    finish({std::move(channel_), std::move(*frame), std::nullopt, false});
  } catch (const FrameError& error) {
    GreetingEnd end;
    end.failure = DialFailure{DialFailure::Kind::protocol, error.what()};
    end.other_version = error.fault() == FrameFault::other_version;
    end.channel = std::move(channel_);
    finish(std::move(end));
  }
  return false;
}

bool Greeting::proceed(StreamResult result) {
  switch (result.state) {
    case StreamState::done:
      return true;
    case StreamState::wants_read:
      wait(asio::ip::tcp::socket::wait_read);
      return false;
    case StreamState::wants_write:
      wait(asio::ip::tcp::socket::wait_write);
      return false;
    case StreamState::ended:
      fail(DialFailure::Kind::protocol, "the peer closed the connection before it was agreed on");
      return false;
    case StreamState::failed:
      fail(result.about_security ? DialFailure::Kind::security : DialFailure::Kind::protocol, result.reason);
      return false;
  }
  return false;
}

void Greeting::wait(asio::ip::tcp::socket::wait_type type) {
  channel_->socket.async_wait(type, [self = shared_from_this()](asio::error_code error) {
    if (!error) self->advance();
  });
}

void Greeting::fail(DialFailure::Kind kind, const std::string& reason) {
  if (channel_ == nullptr) return;
  channel_.reset();
  GreetingEnd end;
  end.failure = DialFailure{kind, reason};
  finish(std::move(end));
}

void Greeting::finish(GreetingEnd end) {
  timer_.cancel();
  std::exchange(done_, nullptr)(std::move(end));
}

}  // namespace zerolock
