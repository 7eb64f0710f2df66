#pragma once
/// A run's numbers for Prometheus, over HTTP.

#include <memory>

#include "supervision/status_board.hpp"
#include "transport/address.hpp"

namespace zerolock {

/// Answers GET /metrics until it is destroyed, to anybody who reaches the address.
class MetricsEndpoint {
 public:
  /// Throws InputError if it cannot listen there.
  MetricsEndpoint(const Address& address, std::shared_ptr<const StatusBoard> board);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  /// With the port that the system chose, where it was left to it.
  [[nodiscard]] Address address() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace zerolock
