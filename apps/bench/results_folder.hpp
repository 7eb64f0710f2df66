#pragma once
/// The folder that a benchmark writes its results to.

#include <filesystem>
#include <optional>

namespace zerolock {

/// To be asked before anything is measured: throws InputError if results cannot be written to the folder,
/// which need not exist yet. No folder, no complaint.
void require_results_folder(const std::optional<std::filesystem::path>& out);

}  // namespace zerolock
