#pragma once
/// What has happened in a simulated run, a line each.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "supervision/simulation/timeline.hpp"

namespace zerolock::simulation {

class EventLog {
 public:
  /// Without `all`, only the last lines are kept.
  EventLog(const Timeline& timeline, bool all) : timeline_(timeline), all_(all) {}

  void note(const std::string& line);
  [[nodiscard]] std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }
  /// Of all lines, kept or not: equal for equal runs.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  static constexpr std::size_t lines_kept = 60;

  const Timeline& timeline_;
  bool all_;
  std::deque<std::string> lines_;
  std::uint64_t digest_ = 14695981039346656037ULL;
};

}  // namespace zerolock::simulation
