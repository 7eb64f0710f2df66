#pragma once
/// Connections between processes: ordered like TCP, and breakable.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervision/simulation/event_log.hpp"
#include "supervision/simulation/timeline.hpp"

namespace zerolock::simulation {

class Connection;
class Network;
using ConnectionPointer = std::shared_ptr<Connection>;
using OnClosed = std::function<void(const ConnectionPointer&)>;

/// Seen from both ends, which are numbered 0 and 1.
class Connection {
 public:
  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// One frame shall arrive damaged, in this direction.
  void damage_next(std::size_t from) { damaged_.at(from) = true; }

 private:
  friend class Network;
  struct End {
    Host* host = nullptr;
    WeakLife life;
    OnClosed on_closed;
    Lane out;
  };
  std::string name_;
  bool open_ = true;
  std::array<End, 2> ends_;
  std::array<bool, 2> damaged_{};
};

class Network {
 public:
  Network(Timeline& timeline, Random& random, EventLog& log, Time latency, Time silence_limit)
      : timeline_(timeline), random_(random), log_(log), latency_(latency), silence_limit_(silence_limit) {}

  struct Side {
    Host* host = nullptr;
    WeakLife life;
    OnClosed on_closed;  // the other end, or the way there, is gone; not said to who closes
  };
  ConnectionPointer open(std::string name, Side first, Side second);
  /// Arrives unless the connection breaks before. `damaged` is called instead of `act` for a damaged frame if
  /// the receiver does not look at checksums; without it, the connection is closed.
  void send(const ConnectionPointer& connection, std::size_t from, std::function<void()> act,
            std::function<void()> damaged = {});
  /// By one of its ends: the other one hears of it.
  void close(const ConnectionPointer& connection, std::size_t by);
  /// By neither: both hear of it.
  void cut(const ConnectionPointer& connection);

  /// A request to a process that is not connected yet, or the answer.
  void call(Host& host, const WeakLife& life, std::function<void()> act) {
    timeline_.after(delay(), host, life, std::move(act));
  }
  [[nodiscard]] Time delay() { return random_.between(latency_, 2 * latency_); }

  /// The process is stopped: its peers give its connections up if it lasts.
  void host_paused(const Host& host);
  /// The process is gone; `silent`: so is its machine, which closes nothing.
  void host_gone(const Host& host, bool silent);
  /// All ways to and from there are cut.
  void cut_off(const Host& host);
  /// Those that are open, oldest first.
  std::vector<ConnectionPointer> connections();

 private:
  void closed_for(const ConnectionPointer& connection, std::size_t end, Time delay);

  Timeline& timeline_;
  Random& random_;
  EventLog& log_;
  Time latency_;
  Time silence_limit_;
  std::vector<std::weak_ptr<Connection>> all_;
  Host clock_;  // of the kernels, which no signal stops
  Life always_ = new_life();
};

}  // namespace zerolock::simulation
