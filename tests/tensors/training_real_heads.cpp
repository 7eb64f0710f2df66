/// Calibrated heads on a real pre-trained model, against the recorded study: the fitted maps, where the
/// losses start, the first updates and what the whole recipe reaches. Takes minutes; needs the reference
/// collection.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tests/tensors/real_model_support.hpp"

namespace zerolock::test {
namespace {

HeadSettings label_head(HeadKind kind) {
  HeadSettings head;
  head.kind = kind;
  head.restricted_tokens = label_tokens;
  return head;
}

/// The study's recipe: calibrated readouts of the label words, the model's own head behind the last stage.
TrainingSettings recipe() {
  TrainingSettings settings;
  settings.loss.inner_head = label_head(HeadKind::calibrated);
  settings.optimizer.learning_rate = 3e-3;
  return settings;
}

std::vector<MicroBatch> window_of_rows(const Prompts& prompts, std::size_t update) {
  std::vector<MicroBatch> window;
  for (std::size_t i = 0; i < 4; ++i) window.push_back(prompts.batch((update * 4 + i) * 8, 8));
  return window;
}

void check_map(const TensorMap& tensors, std::int64_t layers, const std::string& part) {
  const TensorMap expected =
      read_tensors(reference_file("smollm2/calibrated/lens_" + std::to_string(layers) + ".safetensors"));
  const std::string name = "model.layers." + std::to_string(layers - 1) + ".readout." + part;
  const at::Tensor difference = tensors.at(name).sub(expected.at(part));
  const double relative = difference.norm().item<double>() / expected.at(part).norm().item<double>();
  std::cerr << name << ": relative distance " << relative << "\n";
  CHECK(relative < 1e-3);
}

/// Means over a window's micro-batches of one stage's task and consistency losses.
LossReport mean_of_stage(const std::vector<std::vector<LossReport>>& reports, std::size_t stage) {
  LossReport mean;
  for (const std::vector<LossReport>& report : reports) {
    mean.task_loss += report[stage].task_loss / static_cast<double>(reports.size());
    mean.consistency_loss += report[stage].consistency_loss / static_cast<double>(reports.size());
  }
  return mean;
}

/// The mean losses of the first window before any update, with the recorded maps instead of a calibration.
std::vector<LossReport> first_losses(const std::shared_ptr<const ModelFiles>& model,
                                     const TrainingSettings& settings) {
  const Prompts prompts("train");
  SequentialStages stages(model, equal_partition(30, 3), settings);
  StageState state;
  for (const auto& [name, tensor] : initial_weights()) state.tensors["lora." + name] = tensor;
  for (const std::int64_t layers : {10, 20}) {
    const TensorMap map =
        read_tensors(reference_file("smollm2/calibrated/lens_" + std::to_string(layers) + ".safetensors"));
    for (const std::string part : {"A", "b"}) {
      state.tensors["head.model.layers." + std::to_string(layers - 1) + ".readout." + part] = map.at(part);
      state.tensors["head.model.layers." + std::to_string(layers) + ".previous_readout." + part] =
          map.at(part);
    }
  }
  for (std::size_t k = 0; k < 3; ++k) stages.backend(k).restore(state);
  const auto reports = stages.train_window(window_of_rows(prompts, 0), WindowIndex{1});
  return {mean_of_stage(reports, 0), mean_of_stage(reports, 1), mean_of_stage(reports, 2)};
}

}  // namespace

TEST_CASE("calibrated readouts: the losses start as the study has them in every form") {
  if (!has_references()) return;
  at::set_num_threads(1);
  const auto model = ModelFiles::open(real_model_file());
  const nlohmann::json other = read_json(reference_file("smollm2/calibrated/reference.json"))["other"];
  const auto start_of = [&](const std::string& run, std::size_t column) {
    return Approx(other[run]["curve"][0][column].get<double>()).epsilon(0.002);
  };
  TrainingSettings settings = recipe();
  settings.loss.alpha = 0.5;
  settings.loss.inner_head.restricted_tokens.clear();  // full vocabulary
  const auto full = first_losses(model, settings);
  CHECK(full[0].task_loss == start_of("c1_lensV_3", 0));
  CHECK(full[1].task_loss == start_of("c2_lensV_3", 0));
  CHECK(full[2].task_loss == start_of("c3_klfwd", 0));
  CHECK(full[2].consistency_loss == start_of("c3_klfwd", 1));

  settings.loss.last_head = label_head(HeadKind::restricted);
  settings.loss.inner_head = label_head(HeadKind::calibrated);
  const auto restricted = first_losses(model, settings);
  CHECK(restricted[0].task_loss == start_of("c1_lensR_3", 0));
  CHECK(restricted[1].task_loss == start_of("c2_lensR_3", 0));
  CHECK(restricted[2].task_loss == start_of("c3_R_klfwd", 0));
  CHECK(restricted[2].consistency_loss == start_of("c3_R_klfwd", 1));

  settings.loss.form = LossForm::target_cross_entropy;
  const auto target = first_losses(model, settings);
  CHECK(target[2].task_loss == start_of("c3_R_klgeo", 0));
  CHECK(target[2].consistency_loss == start_of("c3_R_klgeo", 1));
}

TEST_CASE("the study's recipe: the same maps, the same first five updates, and what it reaches") {
  if (!has_references()) return;
  at::set_num_threads(1);
  const auto model = ModelFiles::open(real_model_file());
  const nlohmann::json reference = read_json(reference_file("smollm2/calibrated/reference.json"))["seed0"];
  const Prompts prompts("train");
  SequentialStages stages(model, equal_partition(30, 3), recipe());
  stages.start_from(initial_weights());
  std::vector<MicroBatch> calibration;
  for (std::size_t first = 0; first < 512; first += 8) calibration.push_back(prompts.batch(first, 8));
  REQUIRE(stages.calibrate(calibration));
  for (const std::int64_t layers : {10, 20}) {
    check_map(stages.tensors("head."), layers, "A");
    check_map(stages.tensors("head."), layers, "b");
  }

  const std::vector<std::string> chunks{"chunk1", "chunk2", "chunk3_V"};
  for (std::size_t update = 0; update < 32; ++update) {
    const auto reports = stages.train_window(window_of_rows(prompts, update), WindowIndex{update + 1});
    for (std::size_t k = 0; k < 3; ++k) {
      const double expected = reference[chunks[k]]["curve"][update][0];
      const double loss = mean_of_stage(reports, k).task_loss;
      std::cerr << "update " << update + 1 << ", " << chunks[k] << ": " << loss << ", the study's "
                << expected << "\n";
      INFO("update " << update + 1 << ", " << chunks[k]);
      if (update < 5) CHECK(loss == Approx(expected).epsilon(0.01));
    }
  }
  const Evaluation reached = evaluate(model, stages.tensors("lora."));
  std::cerr << "accuracy " << reached.accuracy << ", label loss " << reached.label_loss << "\n";
  CHECK(reached.accuracy >= 0.84);
  CHECK(reached.label_loss <= 0.48);
}

}  // namespace zerolock::test
