#pragma once
/// Who belongs to the cluster: executors, what they can do, and whether they were heard of lately.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zerolock {

/// What an executor says about itself.
struct ExecutorCard {
  std::string name;
  std::string version;  // of the program; all members must have the coordinator's
  std::uint64_t cores = 1;
  std::uint64_t memory_bytes = 0;  // that stages may use; 0: not stated
  std::uint64_t placement = 1;     // rises each time the executor starts anew; fences its earlier lives
  std::string data_address{};      // where it lets downstream stages in; empty: it is in this process
  double gigaflops = 0;            // GFLOP/s of matrix products on all its cores; 0: not measured
  std::uint64_t link_bytes_per_second = 0;  // of its network, each way; 0: not stated
  bool spare = false;                       // stands by: gets stages only when another executor has lost them
  std::uint64_t threads = 1;                // that each of its stages computes with

  bool operator==(const ExecutorCard&) const = default;
};

enum class Admission : std::uint8_t { accepted, name_taken, other_version, earlier_placement };
/// "is taken by a live executor" and the like: the end of a sentence that begins with the name.
std::string describe(Admission admission);

/// Plain state; times are values, counted from any fixed moment.
class MembershipCore {
 public:
  /// An executor counts as alive for `lease` after each sign of life.
  MembershipCore(std::string version, std::chrono::nanoseconds lease)
      : version_(std::move(version)), lease_(lease) {}

  Admission join(const ExecutorCard& card, std::chrono::nanoseconds now);
  /// Returns false if there is no such member, or a later life of it: whoever beats should stop.
  [[nodiscard]] bool beat(const std::string& name, std::uint64_t placement, std::chrono::nanoseconds now);
  void leave(const std::string& name, std::uint64_t placement);
  /// Names of members whose lease has run out, in order.
  [[nodiscard]] std::vector<std::string> silent(std::chrono::nanoseconds now) const;
  /// All members, by name.
  [[nodiscard]] std::vector<ExecutorCard> members() const;

 private:
  struct Member {
    ExecutorCard card;
    std::chrono::nanoseconds last_heard{0};
  };
  std::string version_;
  std::chrono::nanoseconds lease_;
  std::map<std::string, Member> members_;
};

}  // namespace zerolock
