#pragma once
/// The inbound side of a boundary: receives each entry once and in order, and keeps it until its window is
/// durable.

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "actors/core/flow_credit.hpp"
#include "actors/core/window_order.hpp"
#include "tensors/base/entry.hpp"

namespace zerolock {

/// What became of an entry that arrived.
enum class Reception : std::uint8_t {
  accepted,
  other_session,
  earlier_incarnation,
  known_position,
  gap,
  over_bound
};
std::string_view to_string(Reception reception);

struct HiddenStateBufferSetup {
  StageIndex stage;
  WindowsDone durable = WindowIndex{0};  // entries after this window are expected
  std::uint64_t depth = 1;               // received and in flight, not yet taken, at most
  std::uint64_t bytes_max = 0;           // of all entries held and promised
  CheckpointSchedule checkpoints;
  MicroBatchCount micro_batches;
  bool keeps_taken = true;  // until their window is durable; else nobody is fed them again
};

/// Plain state. Outlives the worker it feeds, so that a restarted worker is fed again without any traffic.
class HiddenStateBufferCore {
 public:
  explicit HiddenStateBufferCore(HiddenStateBufferSetup setup);

  /// A new connection: credit counts from zero again, and what is still on its way from the one before is
  /// refused.
  void open_session(std::uint64_t session);
  /// Only the next expected entry from the highest incarnation known is kept; all else is counted and changes
  /// nothing but the credit, which it gives back.
  Reception receive(std::uint64_t session, const Entry& entry);
  /// The next entry for the worker; nullptr when there is none yet.
  const Entry* take();
  /// What take has given is on its way to the worker.
  void handed_over();
  /// A worker restored at `committed` is fed from the window after it; one that has to be calibrated, from
  /// window 0. Throws std::logic_error if entries are gone.
  void rewind(const WindowsDone& committed);
  /// Entries up to this window are no longer needed by a restart.
  void made_durable(WindowIndex window);
  /// Whether the upstream, unable to send an entry of `bytes` at `position` for want of bytes, waits for
  /// ever: no window that must still come before the next checkpoint can be released.
  [[nodiscard]] bool blocked_for_good(const BatchPosition& position, std::uint64_t bytes) const;

  [[nodiscard]] EntryCredit credit() const { return credit_; }
  /// Whether the upstream, which knows of `announced`, should hear of the credit now: it has used half of
  /// what it could have. Saying less often costs nothing and spares a message for most entries.
  [[nodiscard]] bool worth_announcing(const EntryCredit& announced) const;
  /// The first position that has not been received.
  [[nodiscard]] BatchPosition next_expected() const { return next_; }
  [[nodiscard]] const WindowsDone& durable() const { return setup_.durable; }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::uint64_t held_bytes_peak() const { return held_bytes_peak_; }
  [[nodiscard]] std::uint64_t held_entries() const { return held_.size(); }
  [[nodiscard]] std::uint64_t waiting_entries() const { return held_.size() - taken_; }
  [[nodiscard]] std::uint64_t session() const { return session_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] const HiddenStateBufferSetup& setup() const { return setup_; }

 private:
  [[nodiscard]] Reception judge(const Entry& entry) const;
  void update_credit();

  HiddenStateBufferSetup setup_;
  BatchPosition next_;
  Incarnation producer_;    // the highest seen
  std::deque<Entry> held_;  // consecutive positions, oldest first
  std::size_t taken_ = 0;   // the first taken_ of them went to the worker
  std::uint64_t held_bytes_ = 0;
  std::uint64_t held_bytes_peak_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t session_ = 0;
  std::uint64_t session_entries_ = 0;  // that arrived in this session, whatever became of them
  std::uint64_t session_bytes_ = 0;
  EntryCredit credit_;
};

}  // namespace zerolock
