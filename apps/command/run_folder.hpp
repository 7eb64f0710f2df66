#pragma once
/// A run's folder: what lies in it, who may write to it, and what a resumed run must share with the one it
/// continues.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// What a run is and how far it came: run.json. Written when training starts and when it ends in any orderly
/// way.
struct RunRecord {
  enum class Status { running, stopped, finished, failed };

  std::string run_id;
  std::string command = "train";  // of zerolock, that the latest session was started with
  Status status = Status::running;
  std::string model_path;
  std::string model_hash;  // SHA-256 of config and weights
  std::string data_path;
  std::string data_hash;                // SHA-256 of rows and how they were read
  nlohmann::ordered_json settings;      // TrainOptions::deciding_settings()
  nlohmann::ordered_json recipe;        // RecipeReport::to_json(), or null
  std::vector<LayerRange> partition;    // of the last session
  std::uint64_t last_window = 0;        // that the run is to reach
  std::uint64_t durable = 0;            // that it has reached on disk, when last written
  double wall_seconds = 0;              // of all sessions that ended in an orderly way
  std::vector<std::uint64_t> restarts;  // of each stage, over all sessions

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  /// Throws InputError naming the file.
  static RunRecord from_json(const nlohmann::ordered_json& json, const std::filesystem::path& file);
};

/// Paths inside one run's folder.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path config() const { return path_ / "config.toml"; }
  [[nodiscard]] std::filesystem::path record() const { return path_ / "run.json"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path journal() const { return path_ / "journal"; }
  /// While processes of this machine train: how they are reached.
  [[nodiscard]] std::filesystem::path control() const { return path_ / "control.json"; }
  [[nodiscard]] std::filesystem::path trace() const { return path_ / "trace.json"; }
  [[nodiscard]] std::filesystem::path summary() const { return path_ / "summary.json"; }
  [[nodiscard]] std::filesystem::path adapter() const { return path_ / "adapter"; }
  [[nodiscard]] std::filesystem::path report() const { return path_ / "report.html"; }
  [[nodiscard]] std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  [[nodiscard]] std::filesystem::path evaluations() const { return path_ / "evaluations.jsonl"; }
  [[nodiscard]] std::filesystem::path best_adapter() const { return path_ / "adapter-best"; }
  /// Checkpoints of one partition, "checkpoints/10-10-10": the record's partition says which are in force.
  [[nodiscard]] std::filesystem::path checkpoints(const std::vector<LayerRange>& partition) const;

  /// Refuses a folder that a new run must not touch: one with a run in it, with anything else in it, that is
  /// no folder or cannot be written to, or that has less than `bytes` free. Changes nothing. Throws
  /// InputError.
  void check_free(const RunRecord& planned, std::uint64_t bytes) const;
  /// Makes the folder, and nothing if that fails. Throws InputError.
  void create() const;

  /// Reads run.json. Throws InputError if there is nothing to resume.
  [[nodiscard]] RunRecord read_record() const;
  void write_record(const RunRecord& record) const;

 private:
  std::filesystem::path path_;
};

/// Throws InputError with one line that names the first of model, data and settings in which the two differ.
/// The partition may differ.
void check_resumable(const RunRecord& earlier, const RunRecord& planned, const std::filesystem::path& folder);

}  // namespace zerolock
