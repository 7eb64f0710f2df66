#pragma once
/// Everything `zerolock train` can be told, parsed and checked once, and what the other folders are told of
/// it.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/core/training_schedule.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/option_table.hpp"
#include "data/batch_plan.hpp"
#include "data/dataset.hpp"
#include "tensors/base/indices.hpp"
#include "tensors/training/settings.hpp"
#include "transport/entry_frame.hpp"

namespace zerolock {

enum class StageHosting { threads, processes };
/// Presets of learning options; see recipe.hpp.
enum class Recipe { automatic, paper, none };

/// A stage's readout as the command line names it.
struct HeadChoice {
  HeadKind kind = HeadKind::fixed;
  /// calibrated, adapter and bottleneck: over the whole vocabulary even where the rows have classes.
  bool full_vocabulary = false;

  bool operator==(const HeadChoice&) const = default;
  /// Whether it is over the labels' tokens, for rows that have classes or not. A restricted one always is.
  [[nodiscard]] bool restricted(bool rows_have_classes) const;
};

/// Which stages --train-stages names.
struct TrainedStages {
  enum class Kind { all, last, listed } kind = Kind::all;
  std::set<std::uint64_t> listed;

  /// "all", "last" or "0,2". Throws InputError that begins with `where`.
  static TrainedStages parse(const std::string& text, const std::string& where);
  [[nodiscard]] std::string text() const;
  /// As TrainingSettings has it. Throws InputError for a stage that the run does not have.
  [[nodiscard]] std::optional<std::set<std::uint64_t>> of(std::uint64_t stages) const;
};

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
  HeadChoice inner_head;
  HeadChoice last_head;
  double ridge = 0.1;
  std::uint64_t calibration_rows = 512;  // rows of the data that a calibration reads
  std::uint64_t bottleneck_rank = 64;
  bool bottleneck_trained = false;
  std::uint64_t adapter_width = 64;
  std::uint64_t warm_up = 16;
  TrainedStages train_stages;

  std::optional<std::filesystem::path> eval_data;
  std::uint64_t eval_every = 10;            // windows between evaluations
  std::optional<std::uint64_t> early_stop;  // after so many evaluations without improvement

  StageHosting placement = StageHosting::threads;
  std::string link = "local";         // between processes; see transport/link_profile.hpp
  std::optional<WireType> wire_type;  // of hidden states between processes; unless given, the compute type
  TrainingSchedule schedule = TrainingSchedule::zerolock;
  Recipe recipe = Recipe::automatic;
  std::uint64_t depth = 4;
  std::uint64_t buffer_limit_mib = 1024;
  std::uint64_t replay_batch = 1;
  std::uint64_t checkpoint_every = 1;
  double hang_after_seconds = 120;              // no compute step is given up before
  std::optional<std::filesystem::path> faults;  // declared by the commands that inject them
  std::uint64_t restarts_max = 5;
  bool tensorboard = false;  // event files in the run's folder
  LogOptions log;

  /// Declares every training flag. The options must outlive the table and stay where they are.
  void declare(OptionTable& table);
  /// What has to hold between options; fills what follows from others (3 stages, 1 epoch). Throws InputError.
  void complete(const OptionTable& table);
  /// The same for commands that need neither rows nor a folder.
  void complete_model(const OptionTable& table);

  /// Throws InputError if gradients of the schedule cross boundaries: for what knows only stages that have
  /// losses of their own. `what` is the beginning of a sentence, such as "stages in other processes".
  void require_own_losses(const std::string& what) const;

  /// Layer ranges of the stages for a model of that many layers. Throws InputError.
  [[nodiscard]] std::vector<LayerRange> partition(std::int64_t model_layers) const;
  [[nodiscard]] BatchPlanOptions batch_plan_options() const;
  /// How hidden states travel between processes.
  [[nodiscard]] WireType hidden_state_wire_type() const;
  /// Whether they arrive rounded, so that the numbers depend on which boundaries are between processes.
  [[nodiscard]] bool wire_rounds() const;
  /// The number of stages that --stages or --layers asks for.
  [[nodiscard]] std::uint64_t stage_count() const;
  /// What decides the stages' numbers. `label_tokens`: the softmax of restricted heads; empty where the rows
  /// have no classes. `windows`: of the whole run. Throws InputError for stages that the run does not have.
  [[nodiscard]] TrainingSettings stage_settings(std::uint64_t stages,
                                                const std::vector<std::int64_t>& label_tokens,
                                                std::uint64_t windows) const;
  /// What a resumed run must share with the run it continues, apart from model and data: every option that
  /// changes the numbers, by the name of its flag.
  [[nodiscard]] nlohmann::ordered_json deciding_settings() const;
};

/// A head for all stages, or "inner=HEAD,last=HEAD"; HEAD is static, restricted, calibrated, adapter or
/// bottleneck, the last three also with ":full" behind. The last stage is what calibrated ones are fitted to:
/// "calibrated" alone leaves it static. Throws InputError that begins with `where`.
void parse_heads(const std::string& text, const std::string& where, HeadChoice& inner, HeadChoice& last);
std::string heads_text(const HeadChoice& inner, const HeadChoice& last);

}  // namespace zerolock
