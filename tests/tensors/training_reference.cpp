/// Losses, gradients and weights against the reference computations: one adapter end to end, ZeroLock windows
/// in all recorded variants, and plain back-propagation as the case of one stage.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/model/causal_model.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

/// What a compute type must reach against fp64 values.
struct Tolerance {
  ComputeType compute;
  double loss;
  double gradient;  // against fp32 references
  double weight;
};
const std::vector<Tolerance> tolerances = {{ComputeType::fp32, 1e-5, 2e-5, 5e-6},
                                           {ComputeType::fp64, 1e-9, 2e-5, 1e-9}};

/// Every tensor that the reference has under `prefix` against the computed one; returns how many there were.
std::size_t compare_tensors(const TensorMap& computed, const TensorMap& reference, const std::string& prefix,
                            double tolerance) {
  std::size_t compared = 0;
  for (const auto& [name, expected] : reference) {
    if (!name.starts_with(prefix)) continue;
    INFO(name);
    const auto found = computed.find(name.substr(prefix.size()));
    REQUIRE(found != computed.end());
    CHECK(largest_difference(found->second, expected) < tolerance);
    ++compared;
  }
  return compared;
}

TrainingSettings settings_of_case(const std::string& name, const nlohmann::json& reference) {
  TrainingSettings settings;
  settings.lora = {4, 16, false, {"q_proj", "v_proj"}};
  settings.loss.alpha = reference.value("alpha", 1.0);
  if (name.ends_with("reverseKL")) settings.loss.direction = KlDirection::reverse;
  settings.loss.first_chunk_consistency = name.ends_with("firstchunk_p0");
  settings.optimizer.learning_rate = reference["schedule"]["eta0"];
  if (reference["schedule"]["kind"] == "inv_sqrt") {
    settings.optimizer.schedule = ScheduleKind::inverse_sqrt;
    settings.optimizer.schedule_offset = reference["schedule"]["gamma"];
  }
  return settings;
}

/// reports[micro-batch][stage] against [micro-batch][stage][task, consistency, total].
void compare_losses(const std::vector<std::vector<LossReport>>& reports, const nlohmann::json& expected,
                    double alpha, double tolerance) {
  REQUIRE(reports.size() == expected.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    REQUIRE(reports[i].size() == expected[i].size());
    for (std::size_t k = 0; k < reports[i].size(); ++k) {
      const nlohmann::json& wanted = expected[i][k];
      CHECK(std::abs(reports[i][k].task_loss - wanted[0].get<double>()) < tolerance);
      CHECK(std::abs(reports[i][k].loss - wanted[2].get<double>()) < tolerance);
      // A consistency term of weight zero is not computed.
      const double consistency = wanted[1].is_null() || alpha == 1.0 ? 0.0 : wanted[1].get<double>();
      CHECK(std::abs(reports[i][k].consistency_loss - consistency) < tolerance);
    }
  }
}

/// Three windows of one recorded case: losses of each micro-batch and stage, rates, gradients, weights,
/// moments.
void replay_zerolock_case(const std::shared_ptr<const ModelFiles>& model, const std::string& name,
                          const nlohmann::json& reference, const Tolerance& tolerance) {
  const std::filesystem::path file = reference_file("C_zerolock_" + name + ".safetensors");
  const TensorMap tensors = std::filesystem::exists(file) ? read_tensors(file) : TensorMap{};
  TrainingSettings settings = settings_of_case(name, reference);
  settings.compute = tolerance.compute;
  const auto partition = partition_of(reference["bounds"].get<std::vector<std::int64_t>>());
  const std::vector<MicroBatch> batches = reference_batches();
  const TensorMap start = read_adapter("tiny-llama", "qv");
  SequentialStages stages(model, partition, settings);
  stages.start_from(start);
  TensorMap weights = start;
  for (std::size_t w = 0; w < 3; ++w) {
    INFO("window " << w);
    const std::string window = "w" + std::to_string(w);
    compare_tensors(window_gradients(model, partition, settings, weights, window_of(batches, w)), tensors,
                    "grad." + window + ".", tolerance.gradient);
    const auto reports = stages.train_window(window_of(batches, w), WindowIndex{w + 1});
    compare_losses(reports, reference["losses_f64"][w], settings.loss.alpha, tolerance.loss);
    for (const StepReport& step : stages.steps()) {
      CHECK(step.learning_rate == Approx(reference["lr_per_window"][w].get<double>()).epsilon(1e-12));
      CHECK(step.micro_batches == 4);
    }
    weights = stages.tensors("lora.");
    compare_tensors(weights, tensors, "weight.after_" + window + ".", 5e-6);
  }
  compare_tensors(weights, tensors, "weight64.after_w2.", tolerance.weight);
  compare_tensors(stages.tensors("optimizer.first_moment."), tensors, "adam_m.after_w2.", 1e-5);
  compare_tensors(stages.tensors("optimizer.second_moment."), tensors, "adam_v.after_w2.", 1e-6);
}

/// One stage over the whole model on plain end-to-end cross-entropy.
void replay_adapter_case(const std::string& name, const nlohmann::json& reference,
                         const Tolerance& tolerance) {
  const std::string adapter_path = reference["adapter"];
  const std::string model_name = name.substr(0, name.find('_'));
  const auto model = open_reference_model(model_name);
  const auto adapter_file = reference_file_if_any(adapter_path + "/adapter_model.safetensors");
  if (!model || !adapter_file) return;
  const TensorMap adapter = read_tensors(*adapter_file);
  const TensorMap tensors = read_tensors(reference_file("B_lora_" + name + ".safetensors"));
  TrainingSettings settings;
  settings.lora = {4, 16, reference["use_rslora"].get<bool>(),
                   reference["targets"].get<std::vector<std::string>>()};
  settings.compute = tolerance.compute;
  CHECK(settings.lora.scale() == reference["scaling"].get<double>());

  const Packed packed = pack(tensors.at("input_ids"), tensors.at("attention_mask"));
  CausalModel whole(model, scalar_type(settings.compute),
                    {4, settings.lora.scale(), settings.lora.targets, 0});
  whole.set_adapter(adapter);
  const at::Tensor logits = whole.logits(whole.hidden_states(packed.ids, packed.offsets));
  for (const std::string stored : {"logits", "logits_f64"}) {
    if (!tensors.contains(stored)) continue;
    const bool exact = stored == "logits_f64" && tolerance.compute == ComputeType::fp64;
    CHECK(largest_difference(logits, packed.rows_of(tensors.at(stored))) < (exact ? 1e-9 : 5e-5));
  }
  const MicroBatch batch{packed.ids, layout_of(packed, tensors.at("labels"))};
  SequentialStages stages(model, {{0, 6}}, settings);
  stages.start_from(adapter);
  const LossReport report = stages.train(batch, {WindowIndex{1}, 0}).front();
  CHECK(report.supervised_rows == reference["supervised_tokens"].get<std::int64_t>());
  CHECK(std::abs(report.loss - reference["loss_f64"].get<double>()) < tolerance.loss);
  const TensorMap gradients = window_gradients(model, {{0, 6}}, settings, adapter, {batch});
  CHECK(compare_tensors(gradients, tensors, "grad.", tolerance.gradient) == adapter.size());
}

}  // namespace

TEST_CASE("adapters: logits, loss and every LoRA gradient equal the reference") {
  const nlohmann::json reference = read_json(reference_file("B_lora.json"));
  for (const auto& [name, one] : reference["cases"].items()) {
    for (const Tolerance& tolerance : tolerances) {
      INFO(name << ", fp64: " << (tolerance.compute == ComputeType::fp64));
      replay_adapter_case(name, one, tolerance);
    }
  }
}

TEST_CASE("ZeroLock windows equal the reference in all variants") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const nlohmann::json reference = read_json(reference_file("C_zerolock.json"));
  CHECK(reference["cases"].size() == 13);
  for (const auto& [name, one] : reference["cases"].items()) {
    for (const Tolerance& tolerance : tolerances) {
      INFO(name << ", fp64: " << (tolerance.compute == ComputeType::fp64));
      replay_zerolock_case(model, name, one, tolerance);
    }
  }
}

TEST_CASE("hidden states that leave the stages equal the reference") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const TensorMap tensors = read_tensors(reference_file("C_zerolock_3chunks_a0.5_const.safetensors"));
  const TensorMap data = read_tensors(reference_file("CD_data.safetensors"));
  const Packed packed = pack(data.at("mb0.input_ids"), data.at("mb0.attention_mask"));
  TrainingSettings settings;
  settings.loss.alpha = 0.5;
  SequentialStages stages(model, partition_of({2, 4, 6}), settings);
  stages.start_from(read_adapter("tiny-llama", "qv"));
  stages.train({packed.ids, layout_of(packed, data.at("mb0.labels"))}, {WindowIndex{1}, 0});
  CausalModel readout(model);
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string chunk = "chunk" + std::to_string(k);
    CHECK(largest_difference(stages.hidden()[k],
                             packed.rows_of(tensors.at("debug.w0.mb0.hidden_out." + chunk))) < 5e-5);
    const auto logits = tensors.find("debug.w0.mb0.readout_logits." + chunk);
    if (logits == tensors.end()) continue;
    CHECK(largest_difference(readout.logits(stages.hidden()[k]), packed.rows_of(logits->second)) < 5e-5);
  }
}

TEST_CASE("one stage is plain back-propagation") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const nlohmann::json reference = read_json(reference_file("D_bp.json"));
  const std::vector<MicroBatch> batches = reference_batches();
  for (const std::string name : {"const", "sqrt_g1"}) {
    const std::filesystem::path file = reference_file("D_bp_" + name + ".safetensors");
    const TensorMap tensors = std::filesystem::exists(file) ? read_tensors(file) : TensorMap{};
    const nlohmann::json& one = reference["cases"]["bp_" + name];
    for (const Tolerance& tolerance : tolerances) {
      TrainingSettings settings = settings_of_case(name, one);
      settings.compute = tolerance.compute;
      SequentialStages stages(model, {{0, 6}}, settings);
      stages.start_from(read_adapter("tiny-llama", "qv"));
      for (std::size_t w = 0; w < 3; ++w) {
        const auto reports = stages.train_window(window_of(batches, w), WindowIndex{w + 1});
        for (std::size_t i = 0; i < 4; ++i) {
          CHECK(std::abs(reports[i][0].loss - one["losses_f64"][w][i].get<double>()) < tolerance.loss);
        }
        compare_tensors(stages.tensors("lora."), tensors, "weight.after_w" + std::to_string(w) + ".", 5e-6);
      }
      compare_tensors(stages.tensors("lora."), tensors, "weight64.after_w2.", tolerance.weight);
    }
  }
}

}  // namespace zerolock::test
