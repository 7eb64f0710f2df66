#include "supervision/status_server.hpp"

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "supervision/status_frames.hpp"

namespace zerolock {

/// Shared with the connections' events, which hold no connection: who is not in the set is let go of.
class StatusServer::Watchers : public std::enable_shared_from_this<Watchers> {
 public:
  explicit Watchers(std::shared_ptr<const StatusBoard> board) : board_(std::move(board)) {}

  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

  void add(const std::shared_ptr<Connection>& connection) {
    {
      const std::lock_guard lock(mutex_);
      connections_.insert(connection);
    }
    const std::weak_ptr<Connection> weak = connection;
    connection->start({[self = shared_from_this(), weak](const Frame&) {
                         if (const auto watcher = weak.lock()) self->tell(*watcher);
                       },
                       [self = shared_from_this(), weak](const std::string&) {
                         if (const auto watcher = weak.lock()) self->remove(watcher);
                       }});
  }

  void finish(const std::string& reason) {
    std::set<std::shared_ptr<Connection>> connections;
    {
      const std::lock_guard lock(mutex_);
      connections.swap(connections_);
    }
    for (const auto& watcher : connections) {
      watcher->send(status_frame(board_->status()));
      watcher->close(reason);
    }
  }

 private:
  void tell(Connection& watcher) {
    if (!watcher.send(status_frame(board_->status()))) watcher.close("the answers are not taken");
  }

  void remove(const std::shared_ptr<Connection>& watcher) {
    const std::lock_guard lock(mutex_);
    connections_.erase(watcher);
  }

  const std::shared_ptr<const StatusBoard> board_;
  mutable std::mutex mutex_;
  std::set<std::shared_ptr<Connection>> connections_;
};

StatusServer::StatusServer(std::shared_ptr<const StatusBoard> board)
    : watchers_(std::make_shared<Watchers>(std::move(board))) {}

StatusServer::~StatusServer() {
  watchers_->finish("the coordinator ends");
}

HelloAnswer StatusServer::answer() const {
  if (watchers_->count() >= watchers_max) {
    return Refusal{"the run has " + std::to_string(watchers_max) + " watchers already"};
  }
  return HelloAccepted{watcher_options()};
}

void StatusServer::serve(const std::shared_ptr<Connection>& connection) {
  watchers_->add(connection);
}

void StatusServer::finish() {
  watchers_->finish("the run is over");
}

}  // namespace zerolock
