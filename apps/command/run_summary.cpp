#include "apps/command/run_summary.hpp"

#include <algorithm>
#include <cstdio>

namespace zerolock {

namespace {

nlohmann::ordered_json peak_bytes(const MemoryPeaks& measured) {
  nlohmann::ordered_json peaks;
  for (std::size_t index = 0; index < memory_component_count; ++index) {
    const auto component = static_cast<MemoryComponent>(index);
    peaks[std::string(to_string(component))] = measured.of(component);
  }
  peaks["total"] = measured.total;
  return peaks;
}

/// Raises each of `peaks` to the earlier session's value.
void raise_to(nlohmann::ordered_json& peaks, const nlohmann::ordered_json& earlier) {
  for (auto& [name, value] : peaks.items()) {
    if (earlier.contains(name))
      value = std::max(value.get<std::int64_t>(), earlier[name].get<std::int64_t>());
  }
}

}  // namespace

nlohmann::ordered_json make_summary(const SummaryFacts& facts, const MetricsFile& metrics,
                                    const nlohmann::ordered_json& earlier) {
  std::int64_t examples = 0;
  std::vector<nlohmann::ordered_json> final_losses(facts.partition.size());
  for (const auto& [key, line] : metrics.lines()) {
    const auto [window, stage] = key;
    if (stage == 0) examples += line["examples"].get<std::int64_t>();
    if (window == facts.windows && stage < final_losses.size()) final_losses[stage] = line["task_loss"];
  }
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t stage = 0; stage < facts.partition.size(); ++stage) {
    const LayerRange& range = facts.partition[stage];
    const nlohmann::ordered_json layers = {range.first, range.last - 1};
    nlohmann::ordered_json peaks = peak_bytes(facts.peaks[stage]);
    if (earlier.is_object() && earlier.contains("stages") && stage < earlier["stages"].size() &&
        earlier["stages"][stage].value("layers", nlohmann::ordered_json()) == layers) {
      raise_to(peaks, earlier["stages"][stage]["peak_bytes"]);
    }
    stages.push_back({{"stage", stage},
                      {"layers", layers},
                      {"incarnation", facts.incarnations[stage]},
                      {"restarts", facts.restarts[stage]},
                      {"final_task_loss", final_losses[stage]},
                      {"peak_bytes", peaks}});
    if (facts.process_bytes_peaks[stage] > 0) {
      stages.back()["pss_peak_bytes"] = facts.process_bytes_peaks[stage];
    }
  }
  const double per_second = facts.wall_seconds > 0 ? static_cast<double>(examples) / facts.wall_seconds : 0.0;
  return {{"status", facts.status},
          {"examples", examples},
          {"examples_per_second", per_second},
          {"wall_seconds", facts.wall_seconds},
          {"windows", facts.windows},
          {"recipe", facts.recipe},
          {"evaluation", facts.evaluation},
          {"stages", stages},
          {"adapter_sha256", facts.adapter_sha256}};
}

std::string summary_text(const nlohmann::ordered_json& summary) {
  char line[256];
  std::snprintf(line, sizeof line, "%s: %lld examples in %llu windows, %.1f s, %.1f examples/s\n",
                summary["status"].get<std::string>().c_str(), summary["examples"].get<long long>(),
                summary["windows"].get<unsigned long long>(), summary["wall_seconds"].get<double>(),
                summary["examples_per_second"].get<double>());
  std::string text = line;
  constexpr double mebibyte = 1024.0 * 1024.0;
  for (const auto& stage : summary["stages"]) {
    const auto& peaks = stage["peak_bytes"];
    const auto mebibytes = [&peaks](const char* name) { return peaks[name].get<double>() / mebibyte; };
    std::snprintf(
        line, sizeof line,
        "stage %d: layers %d-%d, task loss %s, peak memory %.1f MiB (weights %.1f, activations %.1f, "
        "loss %.1f, buffers %.1f, optimizer %.1f)\n",
        stage["stage"].get<int>(), stage["layers"][0].get<int>(), stage["layers"][1].get<int>(),
        stage["final_task_loss"].is_number() ? stage["final_task_loss"].dump().substr(0, 6).c_str() : "-",
        mebibytes("total"), mebibytes("weights"), mebibytes("activations"), mebibytes("loss"),
        mebibytes("buffers"), mebibytes("optimizer"));
    text += line;
  }
  return text;
}

}  // namespace zerolock
