/// A real pre-trained model: the recorded training run on AG News, replayed from its token ids and initial
/// weights. Takes minutes; needs the reference collection.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tensors/model/causal_model.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

const std::vector<std::int64_t> label_tokens = {2260, 15278, 8460, 3191};  // World, Sports, Business, Science

std::filesystem::path model_file() {
  return std::filesystem::path(ZEROLOCK_SHARED) / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
}

bool has_references() {
  const bool there = std::filesystem::exists(model_file()) &&
                     std::filesystem::exists(std::filesystem::path(ZEROLOCK_SHARED) / "fixtures/smollm2");
  if (!there) std::cerr << "skipped: the real model and its reference runs are not here\n";
  return there;
}

/// Prompts of one half of the recorded data, one label token behind each.
struct Prompts {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> labels;

  explicit Prompts(const std::string& half) {
    const TensorMap data = read_tensors(reference_file("smollm2/agnews_ids.safetensors"));
    const auto list = [&](const std::string& name) {
      const at::Tensor values = data.at(half + "." + name).to(at::kLong);
      const auto* first = values.data_ptr<std::int64_t>();
      return std::vector<std::int64_t>(first, first + values.numel());
    };
    ids = list("ids");
    offsets = list("offsets");
    labels = list("label_token");
  }

  /// Rows first..first+count-1 as a micro-batch, supervised at each prompt's last token.
  [[nodiscard]] MicroBatch batch(std::size_t first, std::size_t count) const {
    auto layout = std::make_shared<MicroBatchLayout>();
    for (std::size_t row = first; row < first + count; ++row) {
      layout->sequence_offsets.push_back(offsets[row + 1] - offsets[first]);
      layout->supervised_rows.push_back(layout->sequence_offsets.back() - 1);
      layout->targets.push_back(labels[row]);
    }
    const std::vector<std::int64_t> part(ids.begin() + offsets[first], ids.begin() + offsets[first + count]);
    return {at::tensor(part, at::kLong), layout};
  }
};

TensorMap initial_weights() {
  TensorMap weights;
  for (const auto& [name, tensor] : read_tensors(reference_file("smollm2/lora_init.safetensors"))) {
    weights["base_model.model." + name] = tensor;
  }
  return weights;
}

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

/// Share of the 400 evaluation rows whose likeliest label is the right one.
double accuracy(const std::shared_ptr<const ModelFiles>& model, const TensorMap& adapter) {
  CausalModel trained(model, at::kFloat, {4, 4.0, {"q_proj", "v_proj"}, 0});
  trained.set_adapter(adapter);
  const Prompts prompts("eval");
  std::int64_t right = 0;
  for (std::size_t first = 0; first < 400; first += 16) {
    const MicroBatch batch = prompts.batch(first, 16);
    const at::Tensor hidden = trained.hidden_states(batch.ids, batch.layout->sequence_offsets)
                                  .index_select(0, at::tensor(batch.layout->supervised_rows, at::kLong));
    const at::Tensor best = trained.log_probabilities(hidden, label_tokens).argmax(1);
    for (std::size_t i = 0; i < 16; ++i) {
      const auto label = static_cast<std::size_t>(best[static_cast<std::int64_t>(i)].item<std::int64_t>());
      right += label_tokens[label] == batch.layout->targets[i] ? 1 : 0;
    }
  }
  return static_cast<double>(right) / 400.0;
}

}  // namespace

TEST_CASE("the recorded run with consistency: the first three updates have the same losses") {
  if (!has_references()) return;
  at::set_num_threads(1);
  replay(ModelFiles::open(model_file()), "zl_a0.5", 3);
}

TEST_CASE("the recorded run without consistency: the same losses, and the same accuracy at its end") {
  if (!has_references()) return;
  at::set_num_threads(1);
  const auto model = ModelFiles::open(model_file());
  const TensorMap adapter = replay(model, "zl_a1.0", 32);
  const nlohmann::json reference = read_json(reference_file("smollm2/agnews_train_zl_a1.0.json"));
  const double expected = reference["eval_first_400_rows_readout_after_layer_10_20_30"][2]["accuracy"];
  const double reached = accuracy(model, adapter);
  std::cerr << "accuracy " << reached << ", the reference run's " << expected << "\n";
  CHECK(std::abs(reached - expected) <= 0.03);
}

}  // namespace zerolock::test
