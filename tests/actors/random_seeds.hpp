#pragma once
/// Random operation sequences that can be run again: every test says its seed with each failure.

#include <cstdint>
#include <random>

namespace zerolock::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// 0 .. count-1
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace zerolock::test
