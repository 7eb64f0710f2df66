#include "transport/socket_connection.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {

namespace {

/// After so many bytes other connections have their turn.
constexpr std::size_t read_turn_bytes = std::size_t{2} << 20;

Frame bye_frame(std::string reason) {
  // The text's length is four bytes.
  if (reason.size() > bye_bytes_max - 4) reason.resize(bye_bytes_max - 4);
  return {FrameType::bye, to_wire(reason), {}};
}

/// The peer's reason, fit for a line of a log.
std::string bye_reason(const Frame& frame) {
  auto reason = from_wire<std::string>(frame.metadata, "bye");
  std::replace_if(
      reason.begin(), reason.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  return reason;
}

std::string milliseconds_text(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

}  // namespace

SocketConnection::SocketConnection(std::unique_ptr<SocketChannel> channel, NodeIdentity peer,
                                   ConnectionOptions options)
    : channel_(std::move(channel)),
      peer_(std::move(peer)),
      peer_text_(to_string(peer_) + " at " + channel_->remote),
      options_(std::move(options)),
      queue_(options_.send_queue_bytes),
      writer_(*channel_->stream, queue_, options_.link, [this](const Frame& frame) { written(frame); }),
      heard_(Clock::now()),
      spoken_(heard_),
      write_timer_(channel_->loop->context()),
      beat_timer_(channel_->loop->context()),
      silence_timer_(channel_->loop->context()),
      closing_timer_(channel_->loop->context()) {
  channel_->decoder.set_bounds(options_.bounds, options_.allocate);
}

// -- life ------------------------------------------------------------------------------------------------

void SocketConnection::open(std::optional<Frame> first) {
  channel_->loop->add(shared_from_this());
  if (first) queue_.push(std::move(*first), Clock::now());
  wait_for_beat();
  write();
}

void SocketConnection::refuse(Frame last) {
  channel_->loop->add(shared_from_this());
  begin_closing("refused", std::move(last));
}

void SocketConnection::start(ConnectionEvents events) {
  auto shared_events = std::make_shared<ConnectionEvents>(std::move(events));
  const bool posted = channel_->loop->post(
      [self = shared_from_this(), shared_events] { self->begin(std::move(*shared_events)); });
  // Without a loop nothing can be received any more.
  if (!posted && shared_events->closed) shared_events->closed("the network is closed");
}

void SocketConnection::begin(ConnectionEvents events) {
  ZEROLOCK_INVARIANT(!events_, "a connection is started once");
  events_ = std::move(events);
  if (state_ == State::ended) return tell_closed();
  if (state_ != State::open) return;
  heard_ = Clock::now();
  if (options_.silence_limit) wait_for_silence(heard_ + *options_.silence_limit);
  read();
}

void SocketConnection::close(std::string reason) {
  if (ended_) return;
  channel_->loop->post([self = shared_from_this(), reason = std::move(reason)] {
    self->begin_closing("closed by this side: " + reason, bye_frame(reason));
  });
}

void SocketConnection::abort(std::string cause) {
  if (ended_) return;
  channel_->loop->post([self = shared_from_this(), cause = std::move(cause)] { self->end(cause); });
}

void SocketConnection::shut_down() {
  begin_closing("closed by this side: the network closes", bye_frame("the process ends"));
}

void SocketConnection::begin_closing(std::string cause, Frame last) {
  if (state_ != State::open) return;
  state_ = State::closing;
  cause_ = std::move(cause);
  queue_.close_with(std::move(last), Clock::now());
  silence_timer_.cancel();
  beat_timer_.cancel();
  closing_timer_.expires_after(options_.closing_limit);
  closing_timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->end(self->cause_);
  });
  read();
  write();
}

void SocketConnection::end(const std::string& cause) {
  if (state_ == State::ended) return;
  if (state_ == State::open) cause_ = cause;
  state_ = State::ended;
  ended_ = true;
  queue_.close();
  for (asio::steady_timer* timer : {&write_timer_, &beat_timer_, &silence_timer_, &closing_timer_}) {
    timer->cancel();
  }
  asio::error_code ignored;
  channel_->socket.close(ignored);
  // The owner may hold its handle for long: the memory of frames goes now.
  writer_.abandon();
  channel_->decoder = FrameDecoder(FrameBounds{});
  tell_closed();
}

void SocketConnection::tell_closed() {
  if (!events_ || !events_->closed) return;
  // Whatever the events hold, which may be this connection's own handle, is let go.
  const ConnectionEvents events = std::exchange(*events_, {});
  try {
    events.closed(cause_);
  } catch (const std::exception&) {
    // The connection is gone; there is nobody else to tell.
  }
}

// -- reading ---------------------------------------------------------------------------------------------

void SocketConnection::read() {
  if (std::exchange(reading_, true)) return;
  read_turn();
}

void SocketConnection::read_turn() {
  std::size_t budget = read_turn_bytes;
  while (state_ != State::ended) {
    const StreamResult result = channel_->stream->read(channel_->decoder.next_buffer());
    switch (result.state) {
      case StreamState::wants_read:
        return wait_to_read(asio::ip::tcp::socket::wait_read);
      case StreamState::wants_write:
        return wait_to_read(asio::ip::tcp::socket::wait_write);
      case StreamState::ended:
        return end("the peer closed the connection without a word");
      case StreamState::failed:
        return end(result.reason);
      case StreamState::done:
        break;
    }
    heard_ = Clock::now();
    // Who closes wants nothing more, but waits for the peer's end.
    if (state_ == State::open) {
      channel_->decoder.advance(result.bytes);
      if (!take_frames()) return;
    }
    if (result.bytes >= budget) {
      asio::post(channel_->loop->context(), [self = shared_from_this()] { self->read_turn(); });
      return;
    }
    budget -= result.bytes;
  }
}

/// False if the connection has ended meanwhile.
bool SocketConnection::take_frames() {
  try {
    while (std::optional<Frame> frame = channel_->decoder.next_frame()) {
      handle(std::move(*frame));
      if (state_ != State::open) return state_ != State::ended;
    }
    return true;
  } catch (const std::exception& error) {
    end(error.what());
    return false;
  }
}

void SocketConnection::handle(Frame frame) {
  counters_.count_received(frame);
  if (frame.type == FrameType::beat) return;
  if (frame.type == FrameType::bye) return end("closed by the peer: " + bye_reason(frame));
  if (events_ && events_->received) events_->received(std::move(frame));
}

void SocketConnection::wait_to_read(asio::ip::tcp::socket::wait_type type) {
  channel_->socket.async_wait(type, [self = shared_from_this()](asio::error_code error) {
    if (!error) self->read_turn();
  });
}

// -- writing ---------------------------------------------------------------------------------------------

bool SocketConnection::send(Frame frame) {
  const SendQueue::Push outcome = queue_.push(std::move(frame), Clock::now());
  if (outcome == SendQueue::Push::taken_by_empty_queue) {
    channel_->loop->post([self = shared_from_this()] { self->write(); });
  }
  return outcome != SendQueue::Push::refused;
}

void SocketConnection::write() {
  if (state_ == State::ended || last_written_) return;
  if (writing_ && !timed_write_) return;  // a handler is on its way
  if (std::exchange(timed_write_, false)) write_timer_.cancel();
  writing_ = false;
  FrameWriter::Progress progress = writer_.pump(Clock::now());
  if (state_ == State::ended) return;
  switch (progress.wait) {
    case FrameWriter::Wait::frames:
      return;
    case FrameWriter::Wait::time:
      writing_ = timed_write_ = true;
      write_timer_.expires_at(progress.until);
      write_timer_.async_wait([self = shared_from_this()](asio::error_code error) {
        if (!error) self->write();
      });
      return;
    case FrameWriter::Wait::socket_read:
      return wait_to_write(asio::ip::tcp::socket::wait_read);
    case FrameWriter::Wait::socket_write:
      return wait_to_write(asio::ip::tcp::socket::wait_write);
    case FrameWriter::Wait::turn:
      writing_ = true;
      asio::post(channel_->loop->context(), [self = shared_from_this()] {
        self->writing_ = false;
        self->write();
      });
      return;
    case FrameWriter::Wait::failed:
      return end(progress.reason);
  }
}

void SocketConnection::wait_to_write(asio::ip::tcp::socket::wait_type type) {
  writing_ = true;
  channel_->socket.async_wait(type, [self = shared_from_this()](asio::error_code error) {
    self->writing_ = false;
    if (!error) self->write();
  });
}

void SocketConnection::written(const Frame& frame) {
  spoken_ = Clock::now();
  counters_.count_sent(frame);
  if (frame.type == FrameType::bye || frame.type == FrameType::refuse) last_was_written();
}

/// Says that nothing more comes and lets the peer end the connection: closing at once could make the system
/// throw away what the peer has not read yet.
void SocketConnection::last_was_written() {
  last_written_ = true;
  asio::error_code ignored;
  channel_->socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

// -- beats and silence -----------------------------------------------------------------------------------

void SocketConnection::wait_for_beat() {
  beat_timer_.expires_after(options_.beat_interval);
  beat_timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (error || self->state_ != State::open) return;
    // While a frame is on its way its bytes are the sign of life.
    if (self->writer_.idle() && Clock::now() - self->spoken_ >= self->options_.beat_interval / 2) {
      self->queue_.push({FrameType::beat, {}, {}}, Clock::now());
      self->write();
    }
    if (self->state_ == State::open) self->wait_for_beat();
  });
}

void SocketConnection::wait_for_silence(Clock::time_point until) {
  silence_timer_.expires_at(until);
  silence_timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (error || self->state_ != State::open) return;
    const auto limit = *self->options_.silence_limit;
    // A process that was stopped itself finds the peer's bytes waiting: that is not the peer's silence.
    if (self->bytes_are_waiting()) self->heard_ = Clock::now();
    if (Clock::now() - self->heard_ >= limit) {
      return self->end("nothing was heard from the peer for " + milliseconds_text(limit));
    }
    self->wait_for_silence(self->heard_ + limit);
  });
}

bool SocketConnection::bytes_are_waiting() {
  asio::error_code error;
  return channel_->socket.available(error) > 0 && !error;
}

// -- counters and the handle -----------------------------------------------------------------------------

void SharedCounters::Counter::add(const Frame& frame) {
  frames.fetch_add(1, std::memory_order_relaxed);
  metadata_bytes.fetch_add(frame.metadata.size(), std::memory_order_relaxed);
  payload_bytes.fetch_add(frame.payload.size(), std::memory_order_relaxed);
}

FrameCounter SharedCounters::Counter::snapshot() const {
  return {frames.load(std::memory_order_relaxed), metadata_bytes.load(std::memory_order_relaxed),
          payload_bytes.load(std::memory_order_relaxed)};
}

ConnectionCounters SharedCounters::snapshot() const {
  ConnectionCounters counters;
  for (std::size_t i = 0; i < frame_type_count; ++i) {
    counters.sent[i] = sent_[i].snapshot();
    counters.received[i] = received_[i].snapshot();
  }
  return counters;
}

const FrameCounter& ConnectionCounters::sent_of(FrameType type) const {
  return sent.at(static_cast<std::size_t>(type) - 1);
}

const FrameCounter& ConnectionCounters::received_of(FrameType type) const {
  return received.at(static_cast<std::size_t>(type) - 1);
}

namespace {

class ConnectionHandle : public Connection {
 public:
  explicit ConnectionHandle(std::shared_ptr<SocketConnection> connection)
      : connection_(std::move(connection)) {}
  ~ConnectionHandle() override { connection_->close("its owner has let go of it"); }
  ConnectionHandle(const ConnectionHandle&) = delete;
  ConnectionHandle& operator=(const ConnectionHandle&) = delete;

  void start(ConnectionEvents events) override { connection_->start(std::move(events)); }
  bool send(Frame frame) override { return connection_->send(std::move(frame)); }
  void close(std::string reason) override { connection_->close(std::move(reason)); }
  void abort(std::string cause) override { connection_->abort(std::move(cause)); }
  [[nodiscard]] const NodeIdentity& peer() const override { return connection_->peer(); }
  [[nodiscard]] std::string peer_text() const override { return connection_->peer_text(); }
  [[nodiscard]] ConnectionCounters counters() const override {
    return std::as_const(*connection_).counters().snapshot();
  }
  [[nodiscard]] std::size_t queued_bytes() const override { return connection_->queue().bytes(); }

 private:
  const std::shared_ptr<SocketConnection> connection_;
};

}  // namespace

std::shared_ptr<Connection> make_connection_handle(std::shared_ptr<SocketConnection> connection) {
  return std::make_shared<ConnectionHandle>(std::move(connection));
}

}  // namespace zerolock
