#include "supervision/status_client.hpp"

#include <utility>
#include <variant>

#include "supervision/cluster_plan.hpp"
#include "supervision/status_frames.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

/// A coordinator answers on its network's thread, which never waits.
constexpr std::chrono::seconds answer_limit{10};

}  // namespace

StatusClient::StatusClient(DialOptions dial) : dial_(std::move(dial)) {
  dial_.hello.purpose = ConnectionPurpose::status;
  dial_.hello.program_version = program_version;
  dial_.connection = watched_options();
}

std::optional<RunStatus> StatusClient::fetch() {
  std::unique_lock lock(mutex_);
  if (!connection_ && !failure_) connect(lock);
  if (connection_ && !answer_) connection_->send(status_request_frame());
  const bool told =
      news_.wait_for(lock, answer_limit, [this] { return answer_ || failure_ || interrupted_; });
  if (interrupted_) return std::nullopt;
  if (answer_) return read_status(*std::exchange(answer_, std::nullopt));
  if (!told) throw RunError(dial_.address.text() + ": no answer came");
  throw RunError(*failure_);
}

void StatusClient::pause(std::chrono::duration<double> time) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, time, [this] { return answer_ || failure_ || interrupted_; });
}

void StatusClient::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  news_.notify_all();
}

/// The dialling has its own limit.
void StatusClient::connect(std::unique_lock<std::mutex>& lock) {
  network_.dial(dial_, [this](DialResult result) { dialled(std::move(result)); });
  news_.wait(lock, [this] { return connection_ || failure_ || interrupted_; });
}

void StatusClient::dialled(DialResult result) {
  if (const auto* failure = std::get_if<DialFailure>(&result)) return failed(failure->reason);
  const std::shared_ptr<Connection> connection = std::get<Dialled>(result).connection;
  connection->start({[this](Frame frame) { received(std::move(frame)); },
                     [this](const std::string& cause) { failed(dial_.address.text() + ": " + cause); }});
  const std::lock_guard lock(mutex_);
  connection_ = connection;
  news_.notify_all();
}

void StatusClient::failed(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  failure_ = cause;
  news_.notify_all();
}

void StatusClient::received(Frame frame) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(frame);
  news_.notify_all();
}

}  // namespace zerolock
