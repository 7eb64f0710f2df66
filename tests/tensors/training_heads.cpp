/// Every kind of readout head: gradients, memory, state, and what the loss makes of a target.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"
#include "tensors/training/bottleneck_head.hpp"
#include "tensors/training/calibrated_head.hpp"
#include "tensors/training/readout_loss.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

const std::vector<std::int64_t> five_tokens = {319, 3, 17, 200, 5};

HeadSettings head_of(HeadKind kind, const std::vector<std::int64_t>& tokens = {}) {
  HeadSettings settings;
  settings.kind = kind;
  settings.restricted_tokens = tokens;
  settings.adapter_width = 8;
  settings.adapter_warm_up = 1;
  settings.bottleneck_rank = tokens.empty() ? 12 : 3;
  return settings;
}

/// Every kind over the whole vocabulary and over some tokens, the bottleneck frozen and trained.
std::vector<HeadSettings> every_head() {
  std::vector<HeadSettings> heads{head_of(HeadKind::fixed), head_of(HeadKind::restricted, five_tokens)};
  for (const auto& tokens : {std::vector<std::int64_t>{}, five_tokens}) {
    for (const HeadKind kind : {HeadKind::calibrated, HeadKind::adapter, HeadKind::bottleneck}) {
      heads.push_back(head_of(kind, tokens));
    }
    heads.push_back(head_of(HeadKind::bottleneck, tokens));
    heads.back().bottleneck_trained = true;
  }
  return heads;
}

std::string name_of(const HeadSettings& settings) {
  static const char* const names[] = {"static", "restricted", "calibrated", "adapter", "bottleneck"};
  return std::string(names[static_cast<int>(settings.kind)]) +
         (settings.restricted_tokens.empty() ? ", whole vocabulary" : ", some tokens") +
         (settings.bottleneck_trained ? ", trained" : "");
}

std::unique_ptr<ReadoutHead> made(const ModelFiles& model, const HeadSettings& settings,
                                  at::ScalarType type) {
  auto head = make_readout_head(model, settings, {"head.x", 3}, type,
                                make_token_rows(model, settings.restricted_tokens, type));
  if (auto* calibrated = dynamic_cast<CalibratedHead*>(head.get())) {
    const std::int64_t width = model.config().width;
    calibrated->set_map({random_tensor({width, width}, 31), random_tensor({width}, 32)});
  }
  return head;
}

/// Compares the gradient in every step-th place of `gradient` with central differences of `loss` in `value`.
template <class Loss>
void check_gradient(at::Tensor value, const at::Tensor& gradient, std::int64_t step, const Loss& loss) {
  REQUIRE(value.is_contiguous());
  const at::Tensor dense = gradient.contiguous();
  double* values = value.data_ptr<double>();
  double largest = 0;
  for (std::int64_t i = 0; i < value.numel(); i += step) {
    const double before = values[i];
    values[i] = before + 1e-5;
    const double above = loss();
    values[i] = before - 1e-5;
    const double below = loss();
    values[i] = before;
    const double expected = (above - below) / 2e-5;
    CHECK(std::abs(expected - dense.data_ptr<double>()[i]) < 1e-8);
    largest = std::max(largest, std::abs(expected));
  }
  CHECK(largest > 1e-6);  // there is something to get wrong
}

}  // namespace

TEST_CASE("every head's gradients equal central differences, to the hidden state and to its own tensors") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<std::int64_t> targets = {3, 319, 17, 17, 200};
  const at::Tensor previous_rows = random_tensor({5, 64}, 41);
  for (const HeadSettings& settings : every_head()) {
    for (const double alpha : {1.0, 0.4}) {
      INFO(name_of(settings) << ", alpha " << alpha);
      const auto head = made(*model, settings, at::kDouble);
      HeadSettings plain =
          head_of(settings.restricted_tokens.empty() ? HeadKind::fixed : HeadKind::restricted,
                  settings.restricted_tokens);
      const auto other = made(*model, plain, at::kDouble);
      for (TrainableTensor tensor : head->trainable()) {
        tensor.value.copy_(random_tensor(tensor.value.sizes(), 42)).mul_(0.1);  // W2 starts at zero
      }
      at::Tensor hidden = random_tensor({5, 64}, 43);
      ExpansionScratch scratch(at::kDouble);
      const PreviousReadout previous{other.get(), previous_rows};
      ReadoutLossOptions options;
      options.task_weight = alpha;
      options.consistency_weight = 1 - alpha;
      options.block_bytes_max = 1;  // blocks of 8 rows: the sums over blocks count too
      const auto run = [&] {
        return readout_loss(*head, hidden, targets, alpha < 1 ? &previous : nullptr, options, scratch);
      };
      const auto loss = [&] { return run().loss; };
      for (TrainableTensor tensor : head->trainable()) tensor.gradient.zero_();
      const at::Tensor dhidden = run().dhidden;
      std::vector<at::Tensor> gradients;
      for (const TrainableTensor& tensor : head->trainable()) gradients.push_back(tensor.gradient.clone());
      check_gradient(hidden, dhidden, 11, loss);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        INFO(head->trainable()[i].name);
        check_gradient(head->trainable()[i].value, gradients[i], gradients[i].numel() > 1000 ? 37 : 1, loss);
      }
      CHECK(head->trains_outputs() == settings.bottleneck_trained);
      CHECK(head->operations_per_row() > 0);
    }
  }
}

TEST_CASE("an adapter head starts as the model's own, a bottleneck of full rank is it") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const at::Tensor hidden = random_tensor({4, 64}, 51);
  const auto logits = [&](const HeadSettings& settings) {
    const auto head = made(*model, settings, at::kDouble);
    const at::Tensor features = head->features(hidden, nullptr);
    at::Tensor z = at::empty({4, head->outputs().outputs()}, features.options());
    ExpansionScratch scratch(at::kDouble);
    head->outputs().multiply(features, z, scratch);
    return z;
  };
  const at::Tensor own = logits(head_of(HeadKind::fixed));
  CHECK(logits(head_of(HeadKind::adapter)).equal(own));
  HeadSettings bottleneck = head_of(HeadKind::bottleneck);
  bottleneck.bottleneck_rank = 64;
  CHECK(largest_difference(logits(bottleneck), own) < 1e-9);
  // The best approximation of its rank: its distance is the norm of the singular values left out.
  bottleneck.bottleneck_rank = 20;
  const auto head = made(*model, bottleneck, at::kDouble);
  std::map<std::string, at::Tensor> factors;
  head->export_fitted(factors);
  const at::Tensor w = model->head().expand(at::kDouble);
  const double distance =
      at::mm(factors.at("head.x.U"), factors.at("head.x.D")).sub_(w).norm().item<double>();
  const at::Tensor singular = at::linalg_svdvals(w);
  CHECK(distance == Approx(singular.narrow(0, 20, 44).norm().item<double>()).epsilon(1e-9));
  CHECK(logits(head_of(HeadKind::bottleneck)).equal(logits(head_of(HeadKind::bottleneck))));

  bottleneck.bottleneck_rank = 65;
  CHECK_THROWS_WITH(made(*model, bottleneck, at::kDouble), Catch::Contains("1 to 64"));
  CHECK_THROWS_AS(made(*model, head_of(HeadKind::restricted), at::kDouble), InputError);
  CHECK_THROWS_AS(made(*model, head_of(HeadKind::fixed, five_tokens), at::kDouble), InputError);
}

TEST_CASE("heads occupy the memory that they report") {
  install_memory_accounting();
  ModelConfig config;
  config.layers = 1;
  config.width = 128;
  config.heads = 4;
  config.key_value_heads = 2;
  config.head_dimension = 32;
  config.feed_forward_width = 176;
  config.vocabulary = 2000;
  config.context_length = 256;
  const auto model = make_random_model(config, 1, StorageFormat::bf16);
  std::vector<std::int64_t> tokens;
  for (std::int64_t token = 0; token < 200; ++token) tokens.push_back(7 * token);
  for (HeadSettings settings : every_head()) {
    INFO(name_of(settings));
    if (!settings.restricted_tokens.empty()) settings.restricted_tokens = tokens;
    settings.bottleneck_rank = 48;
    settings.adapter_width = 32;
    MemoryAccount account;
    const MemoryScope scope(account, MemoryComponent::loss);
    const auto head = made(*model, settings, at::kFloat);
    const bool mapped = !head->outputs().gathered();
    const auto own = static_cast<double>(head->bytes() - (mapped ? head->outputs().bytes() : 0));
    const auto seen = static_cast<double>(account.current_bytes(MemoryComponent::weights) +
                                          account.current_bytes(MemoryComponent::optimizer));
    CHECK(seen == Approx(own).epsilon(0.1));
    CHECK(account.current_bytes(MemoryComponent::loss) == 0);
  }
}

TEST_CASE("the loss towards a geometric mean follows its formula, and so does its gradient") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<std::int64_t> targets = {3, 319, 17, 17, 200};
  const at::Tensor received = random_tensor({5, 64}, 61);
  constexpr double alpha = 0.3;
  constexpr double smoothing = 0.1;
  for (const auto& tokens : {std::vector<std::int64_t>{}, five_tokens}) {
    const HeadSettings settings = head_of(tokens.empty() ? HeadKind::fixed : HeadKind::restricted, tokens);
    const auto head = made(*model, settings, at::kDouble);
    ExpansionScratch scratch(at::kDouble);
    const auto logits = [&](const at::Tensor& rows) {
      const at::Tensor features = head->features(rows, nullptr);
      at::Tensor z = at::empty({rows.size(0), head->outputs().outputs()}, features.options());
      head->outputs().multiply(features, z, scratch);
      return z;
    };
    at::Tensor hidden = random_tensor({5, 64}, 62);
    const at::Tensor p = logits(hidden).softmax(1);
    const at::Tensor q = logits(received).softmax(1);
    at::Tensor labels = at::full_like(p, smoothing / static_cast<double>(p.size(1)));
    for (std::int64_t i = 0; i < 5; ++i) labels[i][head->output_of(targets[i])].add_(1 - smoothing);
    at::Tensor target = labels.pow(alpha).mul(q.pow(1 - alpha));
    target = target.div(target.sum(1, true));
    const double cross_entropy = -target.mul(p.log()).sum(1).mean().item<double>();
    const double divergence = p.mul(p.log().sub(target.log())).sum(1).mean().item<double>();

    const PreviousReadout previous{head.get(), received};
    ReadoutLossOptions options;
    options.task_weight = alpha;
    options.consistency_weight = 1 - alpha;
    options.label_smoothing = smoothing;
    for (const LossForm form : {LossForm::target_cross_entropy, LossForm::target_divergence}) {
      options.form = form;
      const auto run = [&] { return readout_loss(*head, hidden, targets, &previous, options, scratch); };
      const double expected = form == LossForm::target_cross_entropy ? cross_entropy : divergence;
      const ReadoutLoss loss = run();
      CHECK(loss.loss == Approx(expected).epsilon(1e-12));
      CHECK(loss.consistency == loss.loss);
      CHECK(loss.task > 0);
      check_gradient(hidden, loss.dhidden, 7, [&] { return run().loss; });
      ExpansionScratch narrow(at::kFloat);
      const auto single = made(*model, settings, at::kFloat);
      const PreviousReadout before{single.get(), received.to(at::kFloat)};
      const ReadoutLoss rounded =
          readout_loss(*single, hidden.to(at::kFloat), targets, &before, options, narrow);
      CHECK(rounded.loss == Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("bf16 compute trains through every head along the fp32 losses") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<std::int64_t> targets = {3, 319, 17, 17, 200};
  const at::Tensor hidden = random_tensor({5, 64}, 71);
  for (const HeadSettings& settings : every_head()) {
    INFO(name_of(settings));
    const auto loss_in = [&](at::ScalarType type) {
      const auto head = made(*model, settings, type);
      ExpansionScratch scratch(type);
      const ReadoutLoss loss = readout_loss(*head, hidden.to(type), targets, nullptr, {}, scratch);
      CHECK(loss.dhidden.scalar_type() == type);
      return loss.loss;
    };
    CHECK(loss_in(at::kBFloat16) == Approx(loss_in(at::kFloat)).epsilon(0.03));
  }
}

}  // namespace zerolock::test
