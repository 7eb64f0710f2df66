/// What the training code promises beyond the reference numbers: recomputation, partitions, empty
/// supervision, restricted heads, memory, state, errors.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "tensors/base/error.hpp"
#include "tensors/training/learning_rate.hpp"
#include "tensors/training/optimizer.hpp"
#include "tensors/training/readout_loss.hpp"
#include "tensors/training/simulated_backend.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

TrainingSettings consistent_settings() {
  TrainingSettings settings;
  settings.loss.alpha = 0.5;
  settings.optimizer.learning_rate = 1e-3;
  return settings;
}

/// b sequences of the given length, ids in a fixed pattern, the last token of each supervised.
MicroBatch label_batch(std::int64_t sequences, std::int64_t length, std::int64_t vocabulary,
                       std::int64_t seed) {
  auto layout = std::make_shared<MicroBatchLayout>();
  for (std::int64_t s = 1; s <= sequences; ++s) {
    layout->sequence_offsets.push_back(s * length);
    layout->supervised_rows.push_back(s * length - 1);
    layout->targets.push_back((31 * s + seed) % vocabulary);
  }
  const at::Tensor ids = at::arange(sequences * length).mul_(7919).add_(seed).remainder_(vocabulary);
  return {ids, layout};
}

MicroBatch unsupervised(MicroBatch batch) {
  auto layout = std::make_shared<MicroBatchLayout>(*batch.layout);
  layout->supervised_rows.clear();
  layout->targets.clear();
  batch.layout = layout;
  return batch;
}

void check_same_bits(const TensorMap& a, const TensorMap& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    CHECK(tensor.equal(b.at(name)));
  }
}

/// Whole losses of random rows by the given head settings, with everything on the way to finite differences.
struct LossCase {
  std::shared_ptr<const ModelFiles> model = open_reference_model("tiny-llama");
  at::Tensor hidden = random_tensor({5, 64}, 21);
  at::Tensor received = random_tensor({5, 64}, 22);
  std::vector<std::int64_t> targets = {3, 319, 17, 17, 200};

  ReadoutLoss run(const HeadSettings& settings, const ReadoutLossOptions& options,
                  const at::Tensor& rows) const {
    const at::ScalarType type = rows.scalar_type();
    ExpansionScratch scratch(type);
    const auto head = make_readout_head(*model, settings, {}, type,
                                        make_token_rows(*model, settings.restricted_tokens, type));
    const PreviousReadout previous{head.get(), received.to(type)};
    return readout_loss(*head, rows, targets, options.consistency_weight == 0 ? nullptr : &previous, options,
                        scratch);
  }
};

}  // namespace

TEST_CASE(
    "loss blocks: gradients equal central differences, block sizes and the fused loops change nothing") {
  const LossCase one;
  REQUIRE(one.model);
  for (const KlDirection direction : {KlDirection::forward, KlDirection::reverse}) {
    for (const double alpha : {1.0, 0.3}) {
      ReadoutLossOptions options{alpha, 1.0 - alpha, direction, 1 << 20};
      const ReadoutLoss loss = one.run({}, options, one.hidden);
      CHECK(loss.loss == Approx(alpha * loss.task + (1 - alpha) * loss.consistency).epsilon(1e-14));
      at::Tensor moved = one.hidden.clone();
      double* values = moved.data_ptr<double>();
      for (std::int64_t i = 0; i < moved.numel(); i += 7) {
        const double before = values[i];
        values[i] = before + 1e-5;
        const double above = one.run({}, options, moved).loss;
        values[i] = before - 1e-5;
        const double below = one.run({}, options, moved).loss;
        values[i] = before;
        CHECK(std::abs((above - below) / 2e-5 - loss.dhidden.data_ptr<double>()[i]) < 1e-8);
      }
      const ReadoutLoss fused = one.run({}, options, one.hidden.to(at::kFloat));
      CHECK(std::abs(fused.task - loss.task) < 2e-6);
      CHECK(std::abs(fused.consistency - loss.consistency) < 2e-6);
      CHECK(largest_difference(fused.dhidden, loss.dhidden) < 2e-6);
    }
  }
}

TEST_CASE("loss blocks: more rows than a block holds give the same numbers") {
  LossCase one;
  REQUIRE(one.model);
  one.hidden = random_tensor({100, 64}, 23);
  one.received = random_tensor({100, 64}, 24);
  one.targets.assign(100, 5);
  ReadoutLossOptions options{0.5, 0.5, KlDirection::forward, 48 << 20};
  const ReadoutLoss whole = one.run({}, options, one.hidden);
  options.block_bytes_max = 1;  // the smallest block
  const ReadoutLoss blocks = one.run({}, options, one.hidden);
  CHECK(blocks.loss == Approx(whole.loss).epsilon(1e-13));
  CHECK(largest_difference(blocks.dhidden, whole.dhidden) < 1e-13);
}

TEST_CASE("a restricted head is the full head's softmax over its tokens") {
  LossCase one;
  REQUIRE(one.model);
  HeadSettings settings;
  settings.kind = HeadKind::restricted;
  settings.restricted_tokens = {319, 3, 17, 200, 5};
  const ReadoutLoss loss = one.run(settings, {}, one.hidden);
  const at::Tensor normed = rms_norm_forward(
      {one.model->tensor("model.norm.weight").expand(at::kDouble), 1e-5}, one.hidden, nullptr);
  const at::Tensor rows = one.model->head()
                              .expand(at::kDouble)
                              .index_select(0, at::tensor(settings.restricted_tokens, at::kLong));
  const at::Tensor log_p = at::mm(normed, rows.t()).log_softmax(1);
  const at::Tensor places = at::tensor(std::vector<std::int64_t>{1, 0, 2, 2, 3}, at::kLong).unsqueeze(1);
  CHECK(loss.task == Approx(-log_p.gather(1, places).mean().item<double>()).epsilon(1e-12));
  one.targets[0] = 4;
  CHECK_THROWS_WITH(one.run(settings, {}, one.hidden), Catch::Contains("token 4"));
  settings.restricted_tokens = {3, 3};
  CHECK_THROWS_AS(one.run(settings, {}, one.hidden), InputError);
  settings.restricted_tokens = {3, 320};
  CHECK_THROWS_AS(one.run(settings, {}, one.hidden), InputError);

  settings.restricted_tokens.clear();  // every token in order is the full head
  for (std::int64_t token = 0; token < 320; ++token) settings.restricted_tokens.push_back(token);
  const ReadoutLoss all = one.run(settings, {}, one.hidden);
  const ReadoutLoss full = one.run({}, {}, one.hidden);
  CHECK(all.task == Approx(full.task).epsilon(1e-12));
  CHECK(largest_difference(all.dhidden, full.dhidden) < 1e-12);
}

TEST_CASE("recomputation gives the same bits") {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"q_proj", "v_proj"}, all_targets()}) {
    const auto model = open_reference_model("tiny-llama");
    REQUIRE(model);
    TrainingSettings settings = consistent_settings();
    settings.lora.targets = targets;
    SequentialStages kept(model, partition_of({2, 4, 6}), settings);
    settings.recompute = true;
    SequentialStages recomputed(model, partition_of({2, 4, 6}), settings);
    const std::vector<MicroBatch> batches = reference_batches();
    for (std::size_t w = 0; w < 2; ++w) {
      const auto a = kept.train_window(window_of(batches, w), WindowIndex{w + 1});
      const auto b = recomputed.train_window(window_of(batches, w), WindowIndex{w + 1});
      for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t k = 0; k < 3; ++k) CHECK(a[i][k].loss == b[i][k].loss);
      }
    }
    check_same_bits(kept.tensors("lora."), recomputed.tensors("lora."));
  }
}

TEST_CASE("LoRA starts the same under every partition and differs by seed") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  TrainingSettings settings;
  settings.seed = 5;
  const TensorMap one = SequentialStages(model, {{0, 6}}, settings).tensors("lora.");
  check_same_bits(one, SequentialStages(model, partition_of({1, 2, 5, 6}), settings).tensors("lora."));
  settings.seed = 6;
  const TensorMap other = SequentialStages(model, {{0, 6}}, settings).tensors("lora.");
  CHECK_FALSE(one.begin()->second.equal(other.begin()->second));
}

TEST_CASE("a micro-batch without supervised rows counts, and trains nothing") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const TrainingSettings settings = gradient_settings(consistent_settings());
  const MicroBatch batch = label_batch(3, 9, 320, 1);
  SequentialStages stages(model, partition_of({3, 6}), settings);
  const TensorMap start = stages.tensors("lora.");
  const auto reports = stages.train_window({unsupervised(batch), unsupervised(batch)}, WindowIndex{1});
  for (const LossReport& report : reports[0]) {
    CHECK(report.loss == 0);
    CHECK(report.task_loss == 0);
    CHECK(report.consistency_loss == 0);
    CHECK(report.supervised_rows == 0);
    CHECK(report.examples == 3);
  }
  CHECK(stages.steps()[0].gradient_norm == 0);
  check_same_bits(start, stages.tensors("lora."));

  // Beside a supervised one it halves the mean gradient.
  const TensorMap full = window_gradients(model, partition_of({3, 6}), settings, start, {batch});
  const TensorMap half =
      window_gradients(model, partition_of({3, 6}), settings, start, {batch, unsupervised(batch)});
  for (const auto& [name, gradient] : full)
    CHECK(largest_difference(gradient.mul(0.5), half.at(name)) < 1e-7);
}

TEST_CASE("a stage that is not finite says where") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  SequentialStages stages(model, {{0, 6}}, {});
  TensorMap weights = stages.tensors("lora.");
  weights.begin()->second.fill_(std::numeric_limits<float>::quiet_NaN());
  stages.start_from(weights);
  CHECK_THROWS_WITH(stages.train(label_batch(2, 8, 320, 3), {WindowIndex{7}, 2}),
                    Catch::Contains("window 7, micro-batch 2"));
  CHECK_THROWS_AS(stages.train(label_batch(2, 8, 320, 3), {WindowIndex{7}, 3}), RunError);
}

TEST_CASE("a restored state goes on to the same bits, whatever was open") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  SequentialStages stages(model, {{0, 6}}, consistent_settings());
  stages.train_window(window_of(batches, 0), WindowIndex{1});
  const StageState state = stages.backend(0).state();
  CHECK(state.window == WindowIndex{1});
  CHECK(state.metadata.at("optimizer.steps") == "1");
  stages.train_window(window_of(batches, 1), WindowIndex{2});
  const TensorMap after = stages.tensors("");
  stages.train(batches[0], {WindowIndex{3}, 0});
  stages.backend(0).begin({{WindowIndex{3}, 1}, Incarnation{1}, batches[1].layout, batches[1].ids});
  stages.backend(0).restore(state);
  stages.train_window(window_of(batches, 1), WindowIndex{2});
  check_same_bits(after, stages.tensors(""));
  SequentialStages fresh(model, {{0, 6}}, consistent_settings());
  fresh.backend(0).restore(state);
  fresh.train_window(window_of(batches, 1), WindowIndex{2});
  check_same_bits(after, fresh.tensors(""));

  StageState torn = state;
  torn.tensors.erase(torn.tensors.begin());
  CHECK_THROWS_AS(fresh.backend(0).restore(torn), InputError);
}

TEST_CASE("a state can be cut again for another partition") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  TrainingSettings settings = consistent_settings();
  SequentialStages stages(model, partition_of({2, 4, 6}), settings);
  stages.train_window(window_of(batches, 0), WindowIndex{1});
  StageState joined = stages.backend(0).state();
  for (std::size_t k = 1; k < 3; ++k) {
    for (const auto& [name, tensor] : stages.backend(k).state().tensors) joined.tensors[name] = tensor;
  }
  SequentialStages whole(model, {{0, 6}}, settings);
  whole.backend(0).restore(joined);
  check_same_bits(joined.tensors, whole.backend(0).state().tensors);
}

TEST_CASE("memory is charged to its component, and recomputation saves most of the activations") {
  install_memory_accounting();
  ModelConfig config;
  config.layers = 10;
  config.width = 64;
  config.heads = 4;
  config.key_value_heads = 2;
  config.head_dimension = 16;
  config.feed_forward_width = 176;
  config.vocabulary = 2000;
  config.context_length = 256;
  const auto model = make_random_model(config, 1, StorageFormat::bf16);
  const MicroBatch batch = label_batch(8, 128, 2000, 1);
  const auto peak = [&](bool recompute, MemoryComponent component) {
    TrainingSettings settings = consistent_settings();
    settings.recompute = recompute;
    SequentialStages stages(model, {{0, 5}, {5, 10}}, settings);
    stages.train_window({batch, batch}, WindowIndex{1});
    CHECK(stages.account(1).current_bytes(MemoryComponent::loss) == 0);
    CHECK(stages.account(1).current_bytes(MemoryComponent::optimizer) > 0);
    return stages.account(1).peak_bytes(component);
  };
  const auto activations = peak(false, MemoryComponent::activations);
  CHECK(peak(true, MemoryComponent::activations) < activations * 4 / 10);
  CHECK(peak(false, MemoryComponent::loss) < activations / 20);
  CHECK(peak(false, MemoryComponent::loss) > 0);
  CHECK(peak(false, MemoryComponent::buffers) == 8 * 128 * 64 * 4);  // the hidden state it sent
  std::int64_t stored = 2000 * 64 * 2;                               // the head's share
  for (std::int64_t layer = 5; layer < 10; ++layer) {
    for (std::size_t p = 0; p < projection_count; ++p) {
      const std::string name = "model.layers." + std::to_string(layer) + "." +
                               std::string(module_path(static_cast<Projection>(p))) + ".weight";
      stored += static_cast<std::int64_t>(model->tensor(name).stored_bytes());
    }
  }
  const auto weights = peak(false, MemoryComponent::weights);
  CHECK(weights > stored);
  CHECK(weights < stored + 1'000'000);  // the scratch and the norms

  TrainingSettings settings;  // converted weights are counted once
  settings.base = BaseFormat::fp32;
  MemoryAccount account;
  const auto converted = make_chunk_backend(model, StageIndex{1}, {{0, 5}, {5, 10}}, settings, account);
  CHECK(account.current_bytes(MemoryComponent::weights) >= 2 * stored);
  CHECK(account.current_bytes(MemoryComponent::weights) < 2 * stored + 10'000);
}

TEST_CASE("AdamW, SGD, clipping and learning rates follow their formulas") {
  OptimizerSettings settings;
  settings.weight_decay = 0.1;
  const at::Tensor value = at::tensor({1.0, -2.0}, at::kDouble);
  const at::Tensor gradient = at::tensor({0.5, 0.25}, at::kDouble);
  Optimizer adam(settings, {{"x", value, gradient}});
  double p = 1.0;
  double m = 0;
  double v = 0;
  for (int t = 1; t <= 3; ++t) {
    adam.step(0.01);
    m = 0.9 * m + 0.1 * 0.5;
    v = 0.999 * v + 0.001 * 0.25;
    p = p * (1 - 0.01 * 0.1) -
        0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    CHECK(value[0].item<double>() == Approx(p).epsilon(1e-13));
  }
  const std::vector<TrainableTensor> tensors = {{"x", value, gradient}};
  const double norm = gradient_norm(tensors);
  CHECK(norm == Approx(std::sqrt(0.3125)).epsilon(1e-14));
  clip_gradients(tensors, norm, 1.0);
  CHECK(gradient[0].item<double>() == 0.5);  // already within the limit
  clip_gradients(tensors, norm, 0.1);
  CHECK(gradient_norm(tensors) == Approx(0.1).epsilon(1e-5));

  settings.learning_rate = 2.0;
  CHECK(learning_rate_at(settings, WindowIndex{9}) == 2.0);
  settings.schedule = ScheduleKind::cosine;
  settings.schedule_windows = 10;
  CHECK(learning_rate_at(settings, WindowIndex{1}) == 2.0);
  CHECK(learning_rate_at(settings, WindowIndex{6}) == Approx(1.0));
  CHECK(learning_rate_at(settings, WindowIndex{50}) == Approx(0.0).margin(1e-15));
  settings.schedule = ScheduleKind::inverse_sqrt;
  settings.schedule_offset = 3;
  CHECK(learning_rate_at(settings, WindowIndex{2}) == 1.0);
}

TEST_CASE("layers are cut evenly, the rest goes to the last stages") {
  CHECK((equal_partition(22, 3) == partition_of({7, 14, 22})));
  CHECK((equal_partition(30, 3) == partition_of({10, 20, 30})));
  CHECK((equal_partition(6, 4) == partition_of({1, 2, 4, 6})));
  CHECK(equal_partition(6, 6).size() == 6);
  CHECK_THROWS_WITH(equal_partition(6, 7), Catch::Contains("1 to 6"));
  CHECK_THROWS_AS(equal_partition(6, 0), InputError);
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  MemoryAccount account;
  CHECK_THROWS_AS(make_chunk_backend(model, StageIndex{0}, {{0, 3}, {4, 6}}, {}, account), InputError);
  CHECK_THROWS_AS(make_chunk_backend(model, StageIndex{0}, {{0, 3}}, {}, account), InputError);
  TrainingSettings settings;
  settings.lora.targets = {"q"};
  CHECK_THROWS_WITH(make_chunk_backend(model, StageIndex{0}, {{0, 6}}, settings, account),
                    Catch::Contains("q_proj"));
}

TEST_CASE("other base formats and bf16 compute train along the fp32 losses") {
  ModelConfig config;
  config.layers = 6;
  config.width = 64;
  config.heads = 4;
  config.key_value_heads = 2;
  config.head_dimension = 16;
  config.feed_forward_width = 192;
  config.vocabulary = 320;
  config.context_length = 64;
  const auto model = make_random_model(config, 2, StorageFormat::f32);
  const std::vector<MicroBatch> window = window_of(reference_batches(), 0);
  const auto losses = [&](ComputeType compute, BaseFormat base) {
    TrainingSettings settings = consistent_settings();
    settings.compute = compute;
    settings.base = base;
    SequentialStages stages(model, partition_of({3, 6}), settings);
    return stages.train_window(window, WindowIndex{1});
  };
  const auto exact = losses(ComputeType::fp32, BaseFormat::keep);
  CHECK(losses(ComputeType::fp32, BaseFormat::fp32)[0][1].loss == exact[0][1].loss);
  for (const auto& [compute, base] :
       {std::pair{ComputeType::fp32, BaseFormat::bf16}, std::pair{ComputeType::fp32, BaseFormat::q8_0},
        std::pair{ComputeType::bf16, BaseFormat::keep}}) {
    const auto other = losses(compute, base);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(other[i][0].task_loss == Approx(exact[i][0].task_loss).epsilon(0.05));
      CHECK(other[i][0].loss != exact[i][0].loss);
    }
  }
}

TEST_CASE("the simulated backend notices a lost, doubled or reordered micro-batch") {
  const auto run = [](const std::vector<std::int64_t>& seeds) {
    const auto backend = make_simulated_backend(StageIndex{1}, 16);
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      const MicroBatch batch = label_batch(2, 4, 100, seeds[i]);
      const at::Tensor sent = backend->begin(
          {{WindowIndex{1}, i}, Incarnation{1}, batch.layout, batch.ids.to(at::kFloat).unsqueeze(1)});
      CHECK(sent.size(0) == 8);
      CHECK(sent.size(1) == 16);
      backend->finish({WindowIndex{1}, i});
    }
    backend->step(WindowIndex{1});
    return backend->state().tensors.at("lora.simulated").item<double>();
  };
  CHECK(run({1, 2, 3}) == run({1, 2, 3}));
  CHECK(run({1, 2, 3}) != run({2, 1, 3}));
  CHECK(run({1, 2, 3}) != run({1, 2}));
  CHECK(run({1, 2, 3}) != run({1, 2, 2, 3}));
}

}  // namespace zerolock::test
