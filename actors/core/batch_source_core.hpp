#pragma once
/// The upstream of boundary 0: which micro-batch is to be made and sent next. Keeps no entries, since each
/// can be made again from its position.

#include <cstdint>
#include <optional>

#include "actors/core/flow_credit.hpp"
#include "actors/core/window_order.hpp"

namespace zerolock {

class BatchSourceCore {
 public:
  explicit BatchSourceCore(MicroBatchCount micro_batches) : micro_batches_(std::move(micro_batches)) {}

  /// The downstream connects and names the first micro-batch that it lacks.
  void resume(const BatchPosition& first_lacking);
  void credit(const EntryCredit& credit);
  /// All windows up to this one may be sent. Never falls. Window 0, the calibration, needs no grant.
  void grant(WindowIndex window);

  /// What to make and send now; nothing before the downstream has connected, beyond the grant or without
  /// credit.
  [[nodiscard]] std::optional<BatchPosition> next() const;
  /// `next()` was made and has this size. Returns false, and changes nothing, if the credit has too few bytes
  /// for it.
  [[nodiscard]] bool sent(std::uint64_t bytes);

 private:
  MicroBatchCount micro_batches_;
  std::optional<BatchPosition> next_;
  WindowIndex granted_;
  EntryCredit credit_;
  std::uint64_t session_entries_ = 0;
  std::uint64_t session_bytes_ = 0;
};

}  // namespace zerolock
