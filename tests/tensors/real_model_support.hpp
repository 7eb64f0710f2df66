#pragma once
/// The recorded AG News runs of a real pre-trained model: their rows, initial weights and evaluation.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tensors/model/causal_model.hpp"
#include "tests/tensors/training_support.hpp"
#include "tests/where.hpp"

namespace zerolock::test {

inline const std::vector<std::int64_t> label_tokens = {2260, 15278, 8460,
                                                       3191};  // World, Sports, Business, Science

inline bool has_references() {
  const bool there = std::filesystem::exists(real_model_file()) &&
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

inline TensorMap initial_weights() {
  TensorMap weights;
  for (const auto& [name, tensor] : read_tensors(reference_file("smollm2/lora_init.safetensors"))) {
    weights["base_model.model." + name] = tensor;
  }
  return weights;
}

/// What an adapter makes of the 400 evaluation rows.
struct Evaluation {
  double accuracy = 0;    // share of rows whose likeliest label is the right one
  double label_loss = 0;  // mean of -log p of the right label over the whole vocabulary
};

inline Evaluation evaluate(const std::shared_ptr<const ModelFiles>& model, const TensorMap& adapter) {
  CausalModel trained(model, at::kFloat, {4, 4.0, {"q_proj", "v_proj"}, 0});
  trained.set_adapter(adapter);
  const Prompts prompts("eval");
  Evaluation result;
  for (std::size_t first = 0; first < 400; first += 16) {
    const MicroBatch batch = prompts.batch(first, 16);
    const at::Tensor hidden = trained.hidden_states(batch.ids, batch.layout->sequence_offsets)
                                  .index_select(0, at::tensor(batch.layout->supervised_rows, at::kLong));
    const at::Tensor labels = trained.log_probabilities(hidden, label_tokens);
    const at::Tensor best = labels.argmax(1);
    for (std::int64_t i = 0; i < 16; ++i) {
      const auto target = batch.layout->targets[static_cast<std::size_t>(i)];
      const auto place = std::find(label_tokens.begin(), label_tokens.end(), target) - label_tokens.begin();
      result.accuracy += best[i].item<std::int64_t>() == place ? 1.0 / 400 : 0;
      result.label_loss -= labels[i][place].item<double>() / 400;
    }
  }
  return result;
}

}  // namespace zerolock::test
