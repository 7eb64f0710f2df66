#include "apps/command/interrupt_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr int interrupted_status = 130;

sigset_t interrupt_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void block_interrupts() {
  const sigset_t signals = interrupt_signals();
  const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (error != 0) throw RunError(std::string("signals cannot be blocked: ") + std::strerror(error));
}

InterruptWatch::InterruptWatch(std::function<void()> on_first) : on_first_(std::move(on_first)) {
  const sigset_t signals = interrupt_signals();
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || wake_ < 0)
    throw RunError(std::string("signals cannot be watched: ") + std::strerror(errno));
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_, &one, sizeof one));
  thread_.join();
  ::close(wake_);
  ::close(signals_);
}

void InterruptWatch::watch() {
  for (;;) {
    std::array<pollfd, 2> sources{pollfd{signals_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
    if (::poll(sources.data(), sources.size(), -1) < 0) continue;  // only EINTR can come here
    if (sources[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != sizeof info) continue;
    if (requested_.exchange(true, std::memory_order_acq_rel)) ::_exit(interrupted_status);
    on_first_();
  }
}

}  // namespace zerolock
