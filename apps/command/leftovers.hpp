#pragma once
/// Folders that must not outlive the process, also where Ctrl-C ends it at once.

#include <filesystem>
#include <memory>

#include "apps/command/interrupt_watch.hpp"

namespace zerolock {

/// The folder is to go when the process does, until it is forgotten.
void note_leftover(const std::filesystem::path& folder);
/// Of a folder that was noted.
void forget_leftover(const std::filesystem::path& folder);

/// For commands without a state to save: the first SIGINT or SIGTERM removes all leftovers and ends the
/// process with status 130. Make it before the first thread of the process.
class EndOnInterrupt {
 public:
  EndOnInterrupt();

 private:
  std::unique_ptr<InterruptWatch> watch_;
};

}  // namespace zerolock
