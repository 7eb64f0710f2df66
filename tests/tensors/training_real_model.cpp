/// A real pre-trained model: the recorded training run on AG News, replayed from its token ids and initial
/// weights. Takes minutes; needs the reference collection.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tests/tensors/real_model_support.hpp"

namespace zerolock::test {
namespace {

/// Trains `updates` windows of 4 micro-batches of 8 rows and compares the losses of the first three with the
/// recorded run. Returns the trained weights.
TensorMap replay(const std::shared_ptr<const ModelFiles>& model, const std::string& run,
                 std::size_t updates) {
  const nlohmann::json reference = read_json(reference_file("smollm2/agnews_train_" + run + ".json"));
  const nlohmann::json& curve = reference["loss_curve_per_microbatch_per_chunk_task_kl_total"];
  TrainingSettings settings;
  settings.loss.alpha = reference["alpha"];
  settings.optimizer.learning_rate = reference["lr"];
  const Prompts prompts("train");
  SequentialStages stages(model, equal_partition(30, 3), settings);
  stages.start_from(initial_weights());
  for (std::size_t update = 0; update < updates; ++update) {
    std::vector<MicroBatch> window;
    for (std::size_t i = 0; i < 4; ++i) window.push_back(prompts.batch((update * 4 + i) * 8, 8));
    const auto reports = stages.train_window(window, WindowIndex{update + 1});
    std::cerr << run << " update " << update + 1 << ": last stage's loss " << reports[3][2].loss << "\n";
    if (update >= 3) continue;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        INFO("update " << update << ", micro-batch " << i << ", stage " << k);
        const nlohmann::json& expected = curve[update * 4 + i][k];
        CHECK(reports[i][k].task_loss == Approx(expected[0].get<double>()).epsilon(1e-3));
        CHECK(reports[i][k].loss == Approx(expected[2].get<double>()).epsilon(1e-3));
        if (settings.loss.alpha < 1) {
          CHECK(reports[i][k].consistency_loss == Approx(expected[1].get<double>()).epsilon(1e-3));
        }
      }
    }
  }
  return stages.tensors("lora.");
}

}  // namespace

TEST_CASE("the recorded run with consistency: the first three updates have the same losses") {
  if (!has_references()) return;
  at::set_num_threads(1);
  replay(ModelFiles::open(real_model_file()), "zl_a0.5", 3);
}

TEST_CASE("the recorded run without consistency: the same losses, and the same accuracy at its end") {
  if (!has_references()) return;
  at::set_num_threads(1);
  const auto model = ModelFiles::open(real_model_file());
  const TensorMap adapter = replay(model, "zl_a1.0", 32);
  const nlohmann::json reference = read_json(reference_file("smollm2/agnews_train_zl_a1.0.json"));
  const double expected = reference["eval_first_400_rows_readout_after_layer_10_20_30"][2]["accuracy"];
  const double reached = evaluate(model, adapter).accuracy;
  std::cerr << "accuracy " << reached << ", the reference run's " << expected << "\n";
  CHECK(std::abs(reached - expected) <= 0.03);
}

}  // namespace zerolock::test
