#pragma once
/// Virtual time: what happens when, in one thread, the same for the same seed.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace zerolock::simulation {

using Time = std::chrono::nanoseconds;

constexpr Time microseconds(std::uint64_t count) {
  return Time{static_cast<std::int64_t>(count * 1000)};
}

/// The only source of chance of a simulated run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 .. count-1
  std::uint64_t below(std::uint64_t count) { return next() % count; }
  /// first .. last
  std::uint64_t between(std::uint64_t first, std::uint64_t last) { return first + below(last - first + 1); }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  Time between(Time first, Time last) {
    return first +
           Time{static_cast<std::int64_t>(below(static_cast<std::uint64_t>((last - first).count()) + 1))};
  }

 private:
  std::uint64_t state_;
};

/// Held by whatever lives: an actor, a process. What was to happen to it does not happen once it is dropped.
using Life = std::shared_ptr<const char>;
using WeakLife = std::weak_ptr<const char>;
Life new_life();

/// What can be stopped and continued as a whole. Lives as long as the simulation; the processes that run in
/// it one after the other have lives of their own.
struct Host {
  bool paused = false;
  std::uint64_t pauses = 0;  // so far
  struct Deferred {
    WeakLife life;
    std::function<void()> act;
  };
  std::deque<Deferred> deferred;  // what came while it was paused, in order
};

/// A mailbox, or one direction of a connection: what is sent first arrives first.
struct Lane {
  Time last{0};
};

class Timeline {
 public:
  using Act = std::function<void()>;

  [[nodiscard]] Time now() const { return now_; }
  /// Happens at `time` unless `life` has ended by then; while `host` is paused, it waits. Of two at the same
  /// time the one that was ordered first happens first.
  void at(Time time, Host& host, const WeakLife& life, Act act);
  void after(Time delay, Host& host, const WeakLife& life, Act act) {
    at(now_ + delay, host, life, std::move(act));
  }
  /// As `after`, behind all that was put into the lane before.
  void along(Lane& lane, Time delay, Host& host, const WeakLife& life, Act act);
  /// The host goes on: what waited happens now, in order.
  void resume(Host& host);

  /// Does the next thing. Returns false if there is none.
  bool step();
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  struct Event {
    Time time{0};
    std::uint64_t number = 0;
    Host* host = nullptr;
    WeakLife life;
    Act act;
  };
  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  Time now_{0};
  std::uint64_t numbers_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Event> heap_;
};

}  // namespace zerolock::simulation
