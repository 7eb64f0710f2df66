#pragma once
/// The network's thread, for the files that speak to Asio.

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace zerolock {

/// What lives on the loop and has to end before it can.
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  /// Ends soon and tells its owner; called on the loop's thread. Calling it again changes nothing.
  virtual void shut_down() = 0;
};

/// One thread that runs all handlers. Whatever holds sockets or timers also holds the loop.
class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  [[nodiscard]] asio::io_context& context() { return context_; }

  /// Runs `work` on the thread. False if the loop ends: the work is then dropped.
  template <class Work>
  bool post(Work&& work) {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    asio::post(context_, std::forward<Work>(work));
    return true;
  }

  /// Remembers what has to be shut down, until it is gone. On the loop's thread.
  void add(const std::shared_ptr<LoopMember>& member);
  [[nodiscard]] bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  /// Shuts all members down, waits until nothing is left to do and joins the thread. From another thread.
  void end();

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::mutex mutex_;
  bool ending_ = false;
  std::map<LoopMember*, std::weak_ptr<LoopMember>> members_;
  bool members_shut_down_ = false;
  std::thread thread_;
};

}  // namespace zerolock
