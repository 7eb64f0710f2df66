#include "transport/event_loop.hpp"

#include <pthread.h>

#include <csignal>
#include <iterator>
#include <vector>

#include "tensors/base/error.hpp"

namespace zerolock {

EventLoop::EventLoop() : work_(asio::make_work_guard(context_)) {
  // Signals belong to the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { context_.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void EventLoop::add(const std::shared_ptr<LoopMember>& member) {
  for (auto it = members_.begin(); it != members_.end();) {
    it = it->second.expired() ? members_.erase(it) : std::next(it);
  }
  members_[member.get()] = member;
  if (members_shut_down_) member->shut_down();
}

void EventLoop::end() {
  ZEROLOCK_INVARIANT(!on_thread(), "the network ends from another thread than its own");
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    asio::post(context_, [this] {
      members_shut_down_ = true;
      std::vector<std::shared_ptr<LoopMember>> living;
      for (const auto& [address, weak] : members_) {
        if (std::shared_ptr<LoopMember> member = weak.lock()) living.push_back(std::move(member));
      }
      for (const std::shared_ptr<LoopMember>& member : living) member->shut_down();
      work_.reset();
    });
  }
  thread_.join();
}

}  // namespace zerolock
