#include "apps/bench/loopback_boundary.hpp"

#include <chrono>
#include <utility>

#include "apps/command/cluster_options.hpp"
#include "supervision/cluster_plan.hpp"
#include "tensors/base/error.hpp"
#include "transport/tensor_payload.hpp"

namespace zerolock {

namespace {

constexpr const char* upstream_name = "upstream";
constexpr const char* downstream_name = "downstream";

/// A machine under load must not end a measurement.
ConnectionOptions patient(ConnectionOptions options) {
  options.silence_limit = std::nullopt;
  return options;
}

}  // namespace

LoopbackBoundary::LoopbackBoundary(const Setup& setup) : terms_(setup.terms) {
  listen(setup);
  dial(setup);
  start();
}

LoopbackBoundary::~LoopbackBoundary() = default;

void LoopbackBoundary::listen(const Setup& setup) {
  ListenOptions options;
  options.address = {"127.0.0.1", 0};
  options.security = setup.upstream;
  options.welcome = {{NodeRole::executor, upstream_name}, program_version, ""};
  options.token = new_token();
  ConnectionOptions connection = patient(upstream_options(terms_));
  connection.link = setup.link;
  ListenEvents events;
  events.hello = [connection](const Hello&) -> HelloAnswer { return HelloAccepted{connection}; };
  events.accepted = [this](std::shared_ptr<Connection> accepted, const Hello&) {
    const std::lock_guard lock(mutex_);
    upstream_ = std::move(accepted);
    changed_.notify_all();
  };
  listener_ = upstream_network_.listen(options, events);
  token_ = options.token;
}

void LoopbackBoundary::dial(const Setup& setup) {
  DialOptions options;
  options.address = listener_->address();
  options.security = setup.downstream;
  options.hello.node = {NodeRole::executor, downstream_name};
  options.hello.program_version = program_version;
  options.hello.purpose = ConnectionPurpose::boundary;
  options.hello.token = token_;
  options.peer = {NodeRole::executor, upstream_name};
  options.limit = std::chrono::minutes(1);
  options.connection = patient(downstream_options(terms_));
  options.connection.allocate = accounted_payloads(account_);
  downstream_network_.dial(std::move(options), [this](DialResult result) {
    const std::lock_guard lock(mutex_);
    if (const auto* failure = std::get_if<DialFailure>(&result)) {
      failure_ = failure->reason;
    } else {
      downstream_ = std::get<Dialled>(result).connection;
    }
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (upstream_ && downstream_) || !failure_.empty(); });
  if (!failure_.empty()) throw RunError("loopback: " + failure_);
}

void LoopbackBoundary::start() {
  const auto closed = [this](const std::string& cause) { ended(cause); };
  upstream_->start({[this](const Frame& frame) { credited(frame); }, closed});
  downstream_->start({[this](const Frame& frame) { arrived(frame); }, closed});
}

double LoopbackBoundary::transfer(const Entry& entry, std::uint64_t count) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  const std::uint64_t last = sent_ + count;
  while (sent_ < last) {
    changed_.wait(lock, [this] { return sent_ - credited_ < terms_.depth || !failure_.empty(); });
    if (!failure_.empty()) break;
    ++sent_;
    lock.unlock();
    const bool taken = upstream_->send(entry_frame(1, entry, terms_.wire_type));
    ZEROLOCK_INVARIANT(taken, "credit bounds what is sent");
    lock.lock();
  }
  changed_.wait(lock, [&] { return received_ == last || !failure_.empty(); });
  if (!failure_.empty()) throw RunError("loopback: " + failure_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Entry LoopbackBoundary::received() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void LoopbackBoundary::arrived(const Frame& frame) {
  ReceivedEntry received = read_entry(frame, terms_.limits);
  std::uint64_t entries = 0;
  {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(received.entry);
    entries = ++received_;
    changed_.notify_all();
  }
  downstream_->send(credit_frame({received.session, {entries, entries * frame.payload.size()}}));
}

void LoopbackBoundary::credited(const Frame& frame) {
  const SessionCredit given = read_credit(frame);
  const std::lock_guard lock(mutex_);
  credited_ = given.credit.entries_total;
  changed_.notify_all();
}

void LoopbackBoundary::ended(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = cause;
  changed_.notify_all();
}

}  // namespace zerolock
