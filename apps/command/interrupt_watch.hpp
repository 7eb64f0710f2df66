#pragma once
/// Ctrl-C as a request: the first asks for an orderly stop, the second ends the process at once.

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace zerolock {

/// Blocks SIGINT and SIGTERM for this thread and all threads it starts. Call before the first thread of the
/// process.
void block_interrupts();

/// Waits for the blocked signals in a thread of its own until destroyed. The second signal ends the process
/// with status 130; what is on disk by then stays as it is.
class InterruptWatch {
 public:
  /// `on_first` runs in the watching thread, once.
  explicit InterruptWatch(std::function<void()> on_first);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] bool requested() const { return requested_.load(std::memory_order_acquire); }

 private:
  void watch();

  std::function<void()> on_first_;
  std::atomic<bool> requested_{false};
  int wake_ = -1;     // an eventfd: written by the destructor
  int signals_ = -1;  // a signalfd
  std::thread thread_;
};

}  // namespace zerolock
