#include "apps/command/leftovers.hpp"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <system_error>

#include "apps/command/command.hpp"

namespace zerolock {

namespace {

namespace fs = std::filesystem;

struct Leftovers {
  std::mutex mutex;
  std::set<fs::path> folders;
};

/// Never destroyed: the watching thread may outlive main's objects.
Leftovers& leftovers() {
  static auto* const all = new Leftovers;
  return *all;
}

/// Ends with the mutex held, so that no owner goes on meanwhile.
[[noreturn]] void end_without_leftovers() {
  Leftovers& all = leftovers();
  all.mutex.lock();
  for (const fs::path& folder : all.folders) {
    // Under another name first: those who write to it by its name cannot add to it any more.
    fs::path going = folder;
    going += ".going";
    std::error_code error;
    fs::rename(folder, going, error);
    fs::remove_all(error ? folder : going, error);
  }
  std::fputs("zerolock: interrupted\n", stderr);
  ::_exit(status_interrupted);
}

}  // namespace

void note_leftover(const fs::path& folder) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().folders.insert(folder);
}

void forget_leftover(const fs::path& folder) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().folders.erase(folder);
}

EndOnInterrupt::EndOnInterrupt() {
  block_interrupts();
  watch_ = std::make_unique<InterruptWatch>([] { end_without_leftovers(); });
}

}  // namespace zerolock
