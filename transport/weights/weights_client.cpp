#include "transport/weights/weights_client.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/model_manifest.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {
namespace {

/// How often a waiting thread looks whether it should go on waiting.
constexpr std::chrono::milliseconds check_interval{50};

FrameBounds answer_bounds() {
  FrameBounds bounds;
  bounds.allow(FrameType::part, weights_answer_bytes_max,
               std::max<std::uint64_t>(model_part_bytes_max, model_manifest_text_bytes_max));
  return bounds;
}

}  // namespace

/// What the network's thread brings. It outlives the client where a dial is still under way.
struct WeightsClient::Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<DialResult> dialled;
  std::size_t awaited = 0;  // requests whose answers have not come
  std::deque<Frame> answers;
  std::optional<std::string> end;  // why the connection ended

  /// False for an answer that nobody asked for.
  bool put(Frame frame) {
    const std::lock_guard lock(mutex);
    if (awaited == 0) return false;
    --awaited;
    answers.push_back(std::move(frame));
    changed.notify_one();
    return true;
  }
};

WeightsClient::WeightsClient(Network& network, DialOptions options, std::function<void()> check_waiting)
    : check_waiting_(std::move(check_waiting)), mailbox_(std::make_shared<Mailbox>()) {
  options.connection.bounds = answer_bounds();
  network.dial(std::move(options), [mailbox = mailbox_](DialResult result) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->dialled = std::move(result);
    mailbox->changed.notify_one();
  });
  wait_until([](const Mailbox& mailbox) { return mailbox.dialled.has_value(); });
  // The network's thread has done its part: nobody else looks at it any more.
  DialResult& result = *mailbox_->dialled;
  if (const auto* failure = std::get_if<DialFailure>(&result)) {
    using Kind = DialFailure::Kind;
    if (failure->kind == Kind::security || failure->kind == Kind::cancelled) throw RunError(failure->reason);
    throw ConnectionLost(failure->reason);
  }
  connection_ = std::move(std::get<Dialled>(result).connection);
  connection_->start({[mailbox = mailbox_, connection = std::weak_ptr(connection_)](Frame frame) {
                        if (mailbox->put(std::move(frame))) return;
                        if (const auto sender = connection.lock())
                          sender->close("a part came that nobody had asked for");
                      },
                      [mailbox = mailbox_](std::string cause) {
                        const std::lock_guard lock(mailbox->mutex);
                        mailbox->end = std::move(cause);
                        mailbox->changed.notify_one();
                      }});
}

WeightsClient::~WeightsClient() {
  if (connection_) connection_->close("no more weights are needed");
}

template <class Ready>
void WeightsClient::wait_until(const Ready& ready) {
  while (true) {
    {
      std::unique_lock lock(mailbox_->mutex);
      if (mailbox_->changed.wait_for(lock, check_interval, [&] { return ready(*mailbox_); })) return;
    }
    check_waiting_();
  }
}

void WeightsClient::ask(const WeightsRequest& request) {
  {
    const std::lock_guard lock(mailbox_->mutex);
    ++mailbox_->awaited;
  }
  // Refused when the connection has ended; whatever else the reason, the end is what answer() then finds.
  if (!connection_->send(weights_request_frame(request))) connection_->close("a request was not sent");
}

Payload WeightsClient::answer() {
  wait_until([](const Mailbox& mailbox) { return !mailbox.answers.empty() || mailbox.end.has_value(); });
  Frame frame;
  {
    const std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->answers.empty()) throw ConnectionLost(peer_text() + ": " + *mailbox_->end);
    frame = std::move(mailbox_->answers.front());
    mailbox_->answers.pop_front();
  }
  std::string refusal;
  try {
    refusal = read_weights_refusal(frame.metadata);
  } catch (const WireError& error) {
    throw RunError(peer_text() + ": " + error.what());
  }
  if (!refusal.empty()) throw RunError(peer_text() + ": " + refusal);
  return std::move(frame.payload);
}

}  // namespace zerolock
