#pragma once
/// The folder that a benchmark writes its results to.

#include <filesystem>
#include <optional>
#include <string>

#include "apps/report/bench_table.hpp"

namespace zerolock {

/// To be asked before anything is measured: throws InputError if results cannot be written to the folder,
/// which need not exist yet. No folder, no complaint.
void require_results_folder(const std::optional<std::filesystem::path>& out);

/// Makes the folder and leaves there the result and its picture, named after the benchmark: memory.json and
/// memory.svg. No folder, nothing to do.
void keep_results(const std::optional<std::filesystem::path>& out, const BenchResult& result,
                  const std::string& picture);

}  // namespace zerolock
