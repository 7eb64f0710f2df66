#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

#include "supervision/executor_run.hpp"

namespace zerolock {

std::uint64_t process_bytes_now() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (rollup >> word) {
    if (word == "Pss:" && rollup >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

std::uint64_t process_bytes_peak() {
  static std::atomic<std::uint64_t> peak{0};
  const std::uint64_t now = process_bytes_now();
  std::uint64_t known = peak.load();
  while (now > known && !peak.compare_exchange_weak(known, now)) continue;
  return std::max(now, known);
}

}  // namespace zerolock
