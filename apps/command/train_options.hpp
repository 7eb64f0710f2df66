#pragma once
/// Everything `zerolock train` can be told, parsed and checked once, and what the other folders are told of
/// it.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/command/log_options.hpp"
#include "apps/command/option_table.hpp"
#include "data/batch_plan.hpp"
#include "data/dataset.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/training/settings.hpp"

namespace zerolock {

enum class Placement { threads };
enum class StageSchedule { zerolock };
enum class Recipe { none };

/// How rows are read; shared by train and evaluate.
struct DataOptions {
  std::optional<std::filesystem::path> data;
  std::optional<std::filesystem::path> prompt_template;
  std::vector<std::string> columns;
  std::vector<std::string> labels;
  std::uint64_t sequence_length = 128;
  std::uint64_t limit = 0;
  bool skip_bad_rows = false;

  void declare(OptionTable& table);
  /// Reads the template file. Throws InputError.
  [[nodiscard]] DatasetOptions dataset_options() const;
};

struct TrainOptions {
  std::optional<std::filesystem::path> config;
  bool print_config = false;
  std::optional<std::filesystem::path> resume;
  bool json = false;

  std::optional<std::filesystem::path> model;
  DataOptions rows;
  std::optional<std::filesystem::path> out;

  std::optional<std::uint64_t> stages;
  std::vector<std::uint64_t> layers;  // of each stage; instead of stages
  std::uint64_t batch = 8;
  std::uint64_t accumulate = 4;
  std::optional<std::uint64_t> epochs;
  std::optional<std::uint64_t> windows;
  std::uint64_t seed = 0;
  bool shuffle_off = false;
  std::uint64_t rank = 4;

  TrainingSettings settings;  // seed, rank and heads are put in by complete() and stage_settings()
  HeadKind inner_head = HeadKind::fixed;
  HeadKind last_head = HeadKind::fixed;

  Placement placement = Placement::threads;
  StageSchedule schedule = StageSchedule::zerolock;
  Recipe recipe = Recipe::none;
  std::uint64_t depth = 4;
  std::uint64_t buffer_limit_mib = 1024;
  std::uint64_t checkpoint_every = 1;
  LogOptions log;

  /// Declares every training flag. The options must outlive the table and stay where they are.
  void declare(OptionTable& table);
  /// What has to hold between options; fills what follows from others (3 stages, 1 epoch). Throws InputError.
  void complete(const OptionTable& table);

  /// Layer ranges of the stages for a model of that many layers. Throws InputError.
  [[nodiscard]] std::vector<LayerRange> partition(std::int64_t model_layers) const;
  [[nodiscard]] BatchPlanOptions batch_plan_options() const;
  /// One stage's settings. `restricted_tokens`: for the restricted head. `windows`: of the whole run.
  [[nodiscard]] TrainingSettings stage_settings(std::uint64_t stage, std::uint64_t stage_count,
                                                const std::vector<std::int64_t>& restricted_tokens,
                                                std::uint64_t windows) const;
  /// What a resumed run must share with the run it continues, apart from model and data: every option that
  /// changes the numbers, by the name of its flag.
  [[nodiscard]] nlohmann::ordered_json deciding_settings() const;
};

/// "static", "restricted" or "inner=...,last=...". Throws InputError that begins with `where`.
void parse_heads(const std::string& text, const std::string& where, HeadKind& inner, HeadKind& last);
std::string heads_text(HeadKind inner, HeadKind last);

}  // namespace zerolock
