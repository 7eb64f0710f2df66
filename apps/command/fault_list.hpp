#pragma once
/// Faults to inject, read from a file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/core/fault_plan.hpp"

namespace zerolock {

/// A TOML file with one [[fault]] for each:
///
///     [[fault]]
///     kind = "throw"     # kill, hang, sigkill, sigstop, drop-link, corrupt-frame, corrupt-checkpoint,
///     disk-full stage = 1          # required at = "backward"    # required: where in the stage window = 3
///     # none: any micro_batch = 2    # none: any times = 1          # that it happens; of disk-full: writes
///     that fail seconds = 3        # of hang and sigstop
///
/// Throws InputError with file and line; also for a stage that a run of `stages` stages does not have.
std::vector<Fault> read_faults(const std::filesystem::path& file, std::uint64_t stages);

/// Such a file.
std::string fault_file_text(const std::vector<Fault>& faults);

}  // namespace zerolock
