#pragma once
/// The time before the stages of a run have been placed: whether those that are to get them are here, and
/// when waiting for them is over.

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace zerolock {

struct FirstPlacementSetup {
  /// So many must have joined, spares not counted.
  std::uint64_t executors_wanted = 1;
  /// Nodes that must be among the members: the layers were cut for them. They have been here before, so they
  /// are waited for no longer than `awaited_max`; others without an end.
  std::set<std::string> awaited;
  std::chrono::nanoseconds awaited_max{std::chrono::seconds(60)};
  /// Executors that may be lost before the run begins; one more and it does not begin.
  std::uint64_t losses_max = 5;
};

/// Plain state; times are values, counted from any fixed moment. Reasons are whole sentences without an end.
class FirstPlacement {
 public:
  FirstPlacement(FirstPlacementSetup setup, std::chrono::nanoseconds now);

  /// Whether stages can be placed. `candidates`: members that may get some; `members`: the nodes of all that
  /// have none.
  [[nodiscard]] bool ready(std::uint64_t candidates, const std::vector<std::string>& members) const;
  /// Why it makes no sense to wait longer; none: wait.
  [[nodiscard]] std::optional<std::string> over(const std::vector<std::string>& members,
                                                std::chrono::nanoseconds now) const;
  /// An executor was lost. Why the run does not begin; none: others may join.
  std::optional<std::string> lost(const std::string& cause);

 private:
  FirstPlacementSetup setup_;
  std::chrono::nanoseconds waits_since_;
  std::uint64_t losses_ = 0;
};

}  // namespace zerolock
