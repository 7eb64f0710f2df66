#include "apps/command/training_command.hpp"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>

#include "apps/command/interrupt_watch.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/run_summary.hpp"
#include "apps/command/text_file.hpp"
#include "apps/command/train_options.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

void TrainingCommand::declare(OptionTable& table) {
  options_.declare(table);
  table.path("faults", options_.faults, "TOML file with faults to inject, as those in configs/faults",
             OptionTable::Kept::on_command_line_only);
}

int TrainingCommand::run(OptionTable& table) {
  read_configuration(table);
  prepare(options_);
  options_.complete(table);
  if (options_.print_config) {
    if (options_.recipe != Recipe::none) {
      start_log(options_.log);
      prepare_compute();
      static_cast<void>(resolve_recipe(options_, open_training_sources(options_), by_hand(table)));
    }
    std::fputs(table.to_toml().c_str(), stdout);
    return status_done;
  }
  block_interrupts();
  start_log(options_.log);
  prepare_compute();
  const RunFolder folder(*options_.out);
  const TrainingSources sources = open_training_sources(options_);
  const std::optional<RecipeReport> recipe = resolve_recipe(options_, sources, by_hand(table));
  if (!settle_partition(options_, sources)) return status_interrupted;
  const TrainingInputs inputs = open_training_inputs(options_, sources);
  StartingPoint start =
      options_.resume ? start_resumed_run(options_, inputs, folder) : start_new_run(options_, inputs, folder);
  if (recipe && !options_.resume) start.record.recipe = recipe->to_json();
  start.record.command = name();
  const ClusterRunner where = runner(inputs, folder, start.record);
  folder.create();
  require_fast_sgemm();
  write_text_file(folder.config(), table.to_toml());
  if (recipe && !options_.resume) spdlog::info("{}", recipe->text());
  say_what_is_trained(inputs, start);
  return train(inputs, folder, std::move(start), where);
}

/// Which of a recipe's options it must leave alone. A resumed run's file has them all, resolved; a recipe
/// on the command line is then asked for anew, and compared with what the run was made with.
std::function<bool(const std::string&)> TrainingCommand::by_hand(const OptionTable& table) const {
  if (options_.resume && on_command_line("recipe")) {
    return [this](const std::string& flag) { return on_command_line(flag); };
  }
  return [&table](const std::string& flag) { return table.given(flag); };
}

/// A resumed run starts from the options it was made with.
void TrainingCommand::read_configuration(OptionTable& table) {
  for (const std::string& flag : table.names()) {
    if (table.given(flag)) on_command_line_.insert(flag);
  }
  if (!options_.resume) {
    if (options_.config) table.read(*options_.config);
    return;
  }
  const RunFolder folder(*options_.resume);
  const std::string owner = folder.read_record().command;
  if (owner != name() && !takes_over_from(owner)) {
    throw InputError(
        "--resume " + folder.path().string(),
        "is a run of another command; go on with: zerolock " + owner + " --resume " + folder.path().string());
  }
  const bool elsewhere =
      table.given("out") && std::filesystem::absolute(*options_.out).lexically_normal() !=
                                std::filesystem::absolute(folder.path()).lexically_normal();
  if (elsewhere) throw InputError("--out", "a resumed run goes on in its own folder; leave --out away");
  table.read(options_.config ? *options_.config : folder.config());
  options_.out = options_.resume;
}

void TrainingCommand::say_what_is_trained(const TrainingInputs& inputs, const StartingPoint& start) const {
  for (const std::string& warning : start.warnings) spdlog::warn("{}", warning);
  for (const std::string& warning : dataset_warnings(*inputs.dataset)) spdlog::warn("{}", warning);
  for (const std::string& note : window_notes(inputs, options_)) spdlog::info("{}", note);
  std::string layers;
  for (const LayerRange& range : inputs.partition) {
    layers +=
        (layers.empty() ? "" : ", ") + std::to_string(range.first) + "-" + std::to_string(range.last - 1);
  }
  spdlog::info("{} rows, windows {} to {}, {} stages with layers {}", inputs.dataset->examples.size(),
               start.first_window.value, start.record.last_window, inputs.partition.size(), layers);
}

int TrainingCommand::train(const TrainingInputs& inputs, const RunFolder& folder, StartingPoint start,
                           const ClusterRunner& run) const {
  const InterruptWatch interrupts(
      [] { spdlog::warn("stopping after the windows under way; interrupt again to stop at once"); });
  TrainingSession session(
      options_, inputs, folder, std::move(start),
      std::string("zerolock ") + name() + " --resume " + folder.path().string() + resume_words());
  bool hangs = false;
  const ClusterRunner watched = [&](const ClusterPlan& plan, const std::function<bool()>& stop,
                                    const ClusterObserver& observer) {
    ClusterOutcome outcome = run(plan, stop, observer);
    hangs = outcome.hangs;
    return outcome;
  };
  const int status = session.run([&interrupts] { return interrupts.requested(); }, watched);
  if (!session.summary().is_null()) {
    const std::string text =
        options_.json ? session.summary().dump() + "\n" : summary_text(session.summary());
    std::fputs(text.c_str(), stdout);
    if (!options_.json) std::printf("adapter: %s\n", folder.adapter().c_str());
  }
  if (hangs) {  // all is saved; only a thread that hangs, and whatever it uses, is left
    std::fflush(stdout);
    spdlog::shutdown();
    std::_Exit(status);
  }
  return status;
}

}  // namespace zerolock
