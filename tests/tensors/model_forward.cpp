#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"
#include "tensors/model/causal_model.hpp"
#include "tests/tensors/model_support.hpp"

namespace zerolock::test {
namespace {

const std::vector<std::string> reference_models = {"tiny-llama", "tiny-llama-tied", "tiny-llama31",
                                                   "tiny-qwen2"};

/// Hidden states, final norm and logits of one padding side against the reference.
void compare_forward(CausalModel& model, const TensorMap& reference, const std::string& side,
                     double tolerance) {
  const Packed packed = pack(reference.at(side + ".input_ids"), reference.at(side + ".attention_mask"));
  const auto expected = [&](const std::string& name) -> at::Tensor {
    const auto found = reference.find(side + "." + name);
    return found == reference.end() ? at::Tensor() : packed.rows_of(found->second);
  };
  for (std::int64_t layer = 0; layer <= 6; ++layer) {
    const at::Tensor hidden = model.hidden_states(packed.ids, packed.offsets, layer);
    const at::Tensor wanted = expected("hidden." + std::to_string(layer));
    if (wanted.defined()) CHECK(largest_difference(hidden, wanted) < 5e-5);
  }
  const at::Tensor hidden = model.hidden_states(packed.ids, packed.offsets);
  const at::Tensor wanted = expected("logits_f64");
  if (wanted.defined()) CHECK(largest_difference(model.logits(hidden), wanted) < tolerance);
  const at::Tensor stored = expected("logits");
  if (stored.defined()) CHECK(largest_difference(model.logits(hidden), stored) < 5e-5);
}

std::vector<std::int64_t> one_sequence(const at::Tensor& ids) {
  return {0, ids.size(0)};
}

}  // namespace

TEST_CASE("the forward pass equals the reference in fp32 and fp64, on either padding side") {
  for (const std::string& name : reference_models) {
    const auto files = open_reference_model(name);
    if (!files) continue;
    INFO(name);
    const TensorMap reference = read_tensors(reference_file("A_forward_" + name + ".safetensors"));
    CausalModel single(files, at::kFloat);
    CausalModel exact(files, at::kDouble);
    for (const std::string side : {"right", "left"}) {
      compare_forward(single, reference, side, 5e-5);
      compare_forward(exact, reference, side, 1e-9);
    }
    const Packed right = pack(reference.at("right.input_ids"), reference.at("right.attention_mask"));
    const Packed left = pack(reference.at("left.input_ids"), reference.at("left.attention_mask"));
    CHECK(right.ids.equal(left.ids));
    CHECK(right.offsets == left.offsets);
  }
}

TEST_CASE("rotary frequencies equal the reference, Llama 3's stretch included") {
  const nlohmann::json reference = read_json(reference_file("A_forward.json"));
  for (const std::string& name : reference_models) {
    const ModelConfig config = read_model_config(reference_file("models/" + name + "/config.json"));
    const std::vector<double> frequencies = rotary_frequencies(config);
    const auto expected = reference["models"][name]["inv_freq"].get<std::vector<double>>();
    REQUIRE(frequencies.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(frequencies[i] == Approx(expected[i]).epsilon(1e-6));
  }
}

TEST_CASE("a sequence's numbers do not depend on the rest of the batch") {
  const auto files = open_reference_model("tiny-llama");
  REQUIRE(files);
  CausalModel model(files, at::kDouble);
  const at::Tensor first = at::arange(3, 43);
  const at::Tensor second = at::arange(100, 117);
  const at::Tensor together = model.hidden_states(at::cat({first, second}), {0, 40, 57});
  CHECK(largest_difference(together.narrow(0, 0, 40), model.hidden_states(first, one_sequence(first))) <
        1e-12);
  CHECK(largest_difference(together.narrow(0, 40, 17), model.hidden_states(second, one_sequence(second))) <
        1e-12);
}

TEST_CASE("decoding with a key-value cache equals the forward of the whole sequence") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const std::string name : {"tiny-llama31", "tiny-qwen2"}) {
      const auto files = open_reference_model(name);
      if (!files) continue;
      CausalModel model(files, type);
      const at::Tensor ids = at::arange(5, 205).remainder(320);
      const at::Tensor whole = model.hidden_states(ids, one_sequence(ids));
      KeyValueCache cache = model.make_cache();
      std::vector<at::Tensor> parts;
      parts.push_back(model.decode(ids.narrow(0, 0, 90), cache));
      parts.push_back(model.decode(ids.narrow(0, 90, 7), cache));
      for (std::int64_t row = 97; row < 200; ++row)
        parts.push_back(model.decode(ids.narrow(0, row, 1), cache));
      CHECK(cache.rows() == 200);
      CHECK(largest_difference(at::cat(parts), whole) < (type == at::kDouble ? 1e-10 : 5e-5));
    }
  }
}

TEST_CASE("log probabilities are those of the softmax over the logits") {
  const auto files = open_reference_model("tiny-llama");
  REQUIRE(files);
  CausalModel model(files, at::kDouble);
  const at::Tensor ids = at::arange(3, 23);
  const at::Tensor hidden = model.hidden_states(ids, one_sequence(ids));
  const at::Tensor expected = model.logits(hidden).log_softmax(1);
  const std::vector<std::int64_t> tokens = {7, 300, 2};
  CHECK(largest_difference(model.log_probabilities(hidden, tokens),
                           expected.index_select(1, at::tensor(tokens, at::kLong))) < 1e-12);
  std::vector<std::int64_t> targets(20, 11);
  targets[4] = 319;
  CHECK(largest_difference(model.target_log_probabilities(hidden, targets),
                           expected.gather(1, at::tensor(targets, at::kLong).unsqueeze(1)).squeeze(1)) <
        1e-12);
}

TEST_CASE("bf16 compute follows fp32") {
  const auto files = open_reference_model("tiny-llama31");
  REQUIRE(files);
  CausalModel half(files, at::kBFloat16);
  CausalModel single(files, at::kFloat);
  const at::Tensor ids = at::arange(3, 43);
  const at::Tensor expected = single.hidden_states(ids, one_sequence(ids));
  const at::Tensor hidden = half.hidden_states(ids, one_sequence(ids));
  CHECK(hidden.scalar_type() == at::kBFloat16);
  const double error =
      hidden.to(at::kFloat).sub(expected).norm().item<double>() / expected.norm().item<double>();
  CHECK(error < 0.03);
}

TEST_CASE("token ids outside the vocabulary and adapters that do not fit are refused by name") {
  const auto files = open_reference_model("tiny-llama");
  REQUIRE(files);
  CausalModel model(files);
  const at::Tensor ids = at::full({2}, 320, at::kLong);
  CHECK_THROWS_WITH(model.hidden_states(ids, {0, 2}), Catch::Contains("320"));
  CHECK_THROWS_AS(CausalModel(files, at::kFloat, {4, 4.0, {"qkv"}, 0}), InputError);
  CausalModel adapted(files, at::kFloat, {4, 4.0, {"q_proj", "v_proj"}, 0});
  TensorMap weights = read_adapter("tiny-llama", "qv");
  adapted.set_adapter(weights);
  const std::string first = weights.begin()->first;
  TensorMap surplus = weights;
  surplus["base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"] = at::zeros({4, 64});
  CHECK_THROWS_WITH(adapted.set_adapter(surplus), Catch::Contains("layers.9"));
  weights.erase(first);
  CHECK_THROWS_WITH(adapted.set_adapter(weights), Catch::Contains(first));
}

}  // namespace zerolock::test
