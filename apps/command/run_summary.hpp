#pragma once
/// summary.json: a run in numbers, over all its sessions.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command/metrics_file.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

/// What a summary is made from, apart from the metrics.
struct SummaryFacts {
  std::string status;                 // "finished" or "stopped"
  std::uint64_t windows = 0;          // committed by all stages
  double wall_seconds = 0;            // of training, over all sessions
  nlohmann::ordered_json recipe;      // RecipeReport::to_json(), or null
  nlohmann::ordered_json evaluation;  // RunEvaluation::summary(), or null
  std::vector<LayerRange> partition;
  std::vector<std::uint64_t> incarnations;
  std::vector<std::uint64_t> restarts;
  std::vector<MemoryPeaks> peaks;                  // of the stages, in this session
  std::vector<std::uint64_t> process_bytes_peaks;  // of the stages' own processes; 0: they have none
  std::string adapter_sha256;                      // of adapter_model.safetensors
};

/// Peaks are of this session, or of `earlier` (an earlier session's summary, or null) where those
/// are higher and the stages had the same layers.
nlohmann::ordered_json make_summary(const SummaryFacts& facts, const MetricsFile& metrics,
                                    const nlohmann::ordered_json& earlier);

/// The summary as a few lines for people.
std::string summary_text(const nlohmann::ordered_json& summary);

}  // namespace zerolock
