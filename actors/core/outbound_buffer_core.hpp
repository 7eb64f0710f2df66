#pragma once
/// The outbound side of a boundary: sends entries as credit allows and keeps them until the recovery line has
/// passed.

#include <cstdint>
#include <deque>
#include <optional>

#include "actors/core/flow_credit.hpp"
#include "actors/core/window_order.hpp"
#include "tensors/base/entry.hpp"

namespace zerolock {

struct OutboundBufferSetup {
  StageIndex stage;                            // of the worker that fills it
  WindowsDone recovery_line = WindowIndex{0};  // entries after this window are kept
  std::uint64_t bytes_max = 0;                 // of all entries held
  MicroBatchCount micro_batches;
  bool keeps_sent = true;  // until the recovery line has passed; else nobody asks for them again
};

/// Plain state. Outlives the worker that fills it.
class OutboundBufferCore {
 public:
  explicit OutboundBufferCore(OutboundBufferSetup setup);

  /// The downstream connects and names the first entry that it lacks. Returns false if that entry is no
  /// longer held. In an empty buffer it decides which entry is the first to be kept: those before are what
  /// the downstream has.
  [[nodiscard]] bool resume(const BatchPosition& first_lacking);
  void credit(const EntryCredit& credit);
  /// From the worker. Entries already held or known to the downstream are dropped and counted. Returns false
  /// if it does not fit into the byte bound. Throws std::logic_error for a gap.
  [[nodiscard]] bool put(const Entry& entry);
  /// The next entry to send; nullptr if there is none or no credit. The caller sends it.
  const Entry* next_to_send();
  /// Entries up to the line are no longer needed by anyone.
  void recovery_line(WindowIndex line);

  /// An entry that only lacks bytes of credit; nullptr if there is none.
  [[nodiscard]] const Entry* lacking_bytes() const;
  /// What the worker may produce now.
  [[nodiscard]] OutputAllowance allowance() const;
  /// The first output not held yet; none before the downstream has connected for the first time.
  [[nodiscard]] std::optional<BatchPosition> next() const { return next_; }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::uint64_t held_bytes_peak() const { return held_bytes_peak_; }
  [[nodiscard]] std::uint64_t held_entries() const { return held_.size(); }
  [[nodiscard]] std::uint64_t unsent_entries() const { return held_.size() - sent_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void release();

  OutboundBufferSetup setup_;
  std::optional<BatchPosition> next_;
  std::deque<Entry> held_;  // consecutive positions, oldest first
  std::size_t sent_ = 0;    // the first sent_ of them are on their way or there
  std::uint64_t held_bytes_ = 0;
  std::uint64_t held_bytes_peak_ = 0;
  std::uint64_t accepted_entries_ = 0;
  std::uint64_t accepted_bytes_ = 0;
  std::uint64_t bytes_per_row_ = 0;  // of the latest
  std::uint64_t dropped_ = 0;
  std::uint64_t session_entries_ = 0;  // sent in this session
  std::uint64_t session_bytes_ = 0;
  EntryCredit credit_;
};

}  // namespace zerolock
