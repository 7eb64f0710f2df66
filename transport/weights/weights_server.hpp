#pragma once
/// Gives other devices the parts of a model that their stages need.

#include <memory>

#include "tensors/files/model_files.hpp"
#include "transport/connection.hpp"

namespace zerolock {

/// Answers requests (weights_request.hpp) in one thread of its own, so that the network's thread never hashes
/// or waits for a disk. Connections take turns, one request each. Thread-safe.
///
/// A connection is closed with one line if it asks for what is not there, has more than weights_requests_max
/// requests unanswered, or does not take what it asked for.
class WeightsServer {
 public:
  /// Reads the whole model once if its content hash is not known yet. Throws InputError if it has no files (a
  /// model in memory).
  explicit WeightsServer(const std::shared_ptr<const ModelFiles>& model);
  /// Closes the connections and joins the thread, which may be hashing a stage's parts. What was sent keeps
  /// the model's files mapped.
  ~WeightsServer();
  WeightsServer(const WeightsServer&) = delete;
  WeightsServer& operator=(const WeightsServer&) = delete;

  /// What a listener accepts a connection for weights with: small requests in, a queue for the answers.
  [[nodiscard]] ConnectionOptions options() const;
  /// Starts the connection and answers what it asks until it ends. May be called on the network's thread.
  void serve(const std::shared_ptr<Connection>& connection);

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace zerolock
