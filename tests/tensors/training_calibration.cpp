/// Stages with heads of every kind: calibration, state, warm-up, and stages that are not trained.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"
#include "tensors/training/affine_map.hpp"
#include "tensors/training/simulated_backend.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

const std::vector<std::int64_t> bounds = {2, 4, 6};

TrainingSettings settings_with(HeadKind inner) {
  TrainingSettings settings;
  settings.loss.inner_head.kind = inner;
  settings.loss.inner_head.adapter_width = 8;
  settings.loss.inner_head.adapter_warm_up = 1;
  settings.loss.inner_head.bottleneck_rank = 12;
  settings.optimizer.learning_rate = 1e-3;
  return settings;
}

void check_same_bits(const TensorMap& a, const TensorMap& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    CHECK(tensor.equal(b.at(name)));
  }
}

TensorMap lora_of(SequentialStages& stages, std::size_t stage) {
  TensorMap found;
  for (const auto& [name, tensor] : stages.backend(stage).state().tensors) {
    if (name.starts_with("lora.")) found[name] = tensor;
  }
  return found;
}

}  // namespace

TEST_CASE("an affine map is the solution of its normal equations") {
  const at::Tensor x = random_tensor({300, 12}, 1).mul_(3).add_(5);
  const at::Tensor y = random_tensor({300, 12}, 2).sub_(1);
  const AffineMap map = fit_affine_map(x, y, 0.1);
  const at::Tensor centred = x.sub(x.mean(0));
  const at::Tensor gram = at::mm(centred.t(), centred);
  const double lambda = 0.1 * gram.trace().item<double>() / 12;
  const at::Tensor left = at::mm(gram, map.a).add_(map.a, lambda);
  CHECK(largest_difference(left, at::mm(centred.t(), y.sub(y.mean(0)))) < 1e-9);
  CHECK(largest_difference(at::matmul(x.mean(0), map.a).add_(map.b), y.mean(0)) < 1e-12);
  const AffineMap again = fit_affine_map(x, y, 0.1);
  CHECK(again.a.equal(map.a));
  CHECK(again.b.equal(map.b));
  const AffineMap rounded = fit_affine_map(x.to(at::kFloat), y.to(at::kFloat), 0.1);
  CHECK(rounded.a.scalar_type() == at::kFloat);
  CHECK(largest_difference(rounded.a, map.a) < 1e-6);
  // Exact data and next to no ridge: the map itself.
  const at::Tensor a = random_tensor({12, 12}, 3);
  CHECK(largest_difference(fit_affine_map(x, at::mm(x, a).add_(2), 1e-12).a, a) < 1e-8);
  CHECK_THROWS_AS(fit_affine_map(at::ones({5, 3}), at::ones({5, 3}), 0.1), RunError);
  CHECK_THROWS_AS(fit_affine_map(at::full({5, 3}, NAN), at::ones({5, 3}), 0.1), RunError);
  CHECK_THROWS_AS(fit_affine_map(at::ones({1, 3}), at::ones({1, 3}), 0.1), RunError);
}

TEST_CASE("calibration fits every inner stage to the base model's last state, and the next stage alike") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  TrainingSettings settings = settings_with(HeadKind::calibrated);
  settings.loss.alpha = 0.5;
  SequentialStages stages(model, partition_of(bounds), settings);
  stages.start_from(read_adapter("tiny-llama", "qv"));  // not the base model: the adapter has to be off
  CHECK(stages.backend(0).needs_calibration());
  CHECK(stages.backend(2).needs_calibration());  // the readout of the state it receives
  CHECK_THROWS(stages.train(batches[0], {WindowIndex{1}, 0}));
  REQUIRE(stages.calibrate(batches));
  for (std::size_t k = 0; k < 3; ++k) CHECK_FALSE(stages.backend(k).needs_calibration());
  CHECK_FALSE(stages.calibrate(batches));

  // The same fit from hidden states of a model that was never adapted.
  std::vector<std::vector<at::Tensor>> rows(3);
  SequentialStages base(model, partition_of(bounds), TrainingSettings{});
  for (const MicroBatch& batch : batches) {
    base.train(batch, {WindowIndex{1}, static_cast<std::uint64_t>(&batch - batches.data())});
    const at::Tensor supervised = at::tensor(batch.layout->supervised_rows, at::kLong);
    for (std::size_t k = 0; k < 3; ++k) rows[k].push_back(base.hidden()[k].index_select(0, supervised));
  }
  const TensorMap heads = stages.tensors("head.model.layers.");
  CHECK(heads.size() == 8);
  for (std::size_t k = 0; k < 2; ++k) {
    const AffineMap expected = fit_affine_map(at::cat(rows[k]), at::cat(rows[2]), 0.1);
    const std::string own = k == 0 ? "1.readout." : "3.readout.";
    const std::string next = k == 0 ? "2.previous_readout." : "4.previous_readout.";
    for (const std::string& name : {own, next}) {
      CHECK(heads.at(name + "A").equal(expected.a));
      CHECK(heads.at(name + "b").equal(expected.b));
    }
  }
  CHECK(stages.account(0).current_bytes(MemoryComponent::buffers) == 0);  // the rows are gone
}

TEST_CASE("calibration keeps no more rows than it may, and refuses targets of other rows") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  TrainingSettings settings = settings_with(HeadKind::calibrated);
  settings.calibration_rows_max = 20;
  SequentialStages stages(model, partition_of(bounds), settings);
  for (const MicroBatch& batch : batches) {
    at::Tensor payload = batch.ids;
    for (std::size_t k = 0; k < 3; ++k) {
      payload = stages.backend(k).calibrate_begin({{}, Incarnation{1}, batch.layout, payload});
    }
  }
  const at::Tensor targets = stages.backend(2).calibration_targets();
  CHECK(targets.size(0) == 20);
  CHECK_FALSE(stages.backend(0).calibration_targets().defined());
  CHECK_THROWS_AS(stages.backend(0).calibrate_finish(targets.narrow(0, 0, 19)), RunError);
  CHECK(stages.backend(0).needs_calibration());
  stages.backend(0).calibrate_finish(targets);
  CHECK_FALSE(stages.backend(0).needs_calibration());

  SequentialStages unsupervised(model, partition_of(bounds), settings);
  CHECK_THROWS_AS(unsupervised.calibrate({}), RunError);
  SequentialStages plain(model, partition_of(bounds), TrainingSettings{});
  CHECK_FALSE(plain.calibrate(batches));
}

TEST_CASE("with every head, a restored state goes on to the same bits") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  std::vector<TrainingSettings> cases;
  for (const HeadKind kind :
       {HeadKind::fixed, HeadKind::calibrated, HeadKind::adapter, HeadKind::bottleneck}) {
    cases.push_back(settings_with(kind));
  }
  cases.push_back(cases.back());
  cases.back().loss.inner_head.bottleneck_trained = true;
  cases.push_back(settings_with(HeadKind::calibrated));
  cases.back().loss.alpha = 0.5;
  cases.back().loss.form = LossForm::target_cross_entropy;
  for (const TrainingSettings& settings : cases) {
    INFO("head kind " << static_cast<int>(settings.loss.inner_head.kind));
    SequentialStages stages(model, partition_of(bounds), settings);
    stages.calibrate(batches);
    const StageState fresh = stages.backend(1).state();
    stages.train_window(window_of(batches, 0), WindowIndex{1});
    std::vector<StageState> states;
    for (std::size_t k = 0; k < 3; ++k) states.push_back(stages.backend(k).state());
    CHECK(states[0].metadata == states[2].metadata);  // or states could not be joined
    for (const StageState& state : states) {
      for (const auto& [name, tensor] : state.tensors) CHECK(name.find(".layers.") != std::string::npos);
    }
    stages.train_window(window_of(batches, 1), WindowIndex{2});
    const TensorMap after = stages.tensors("");

    SequentialStages other(model, partition_of(bounds), settings);
    for (std::size_t k = 0; k < 3; ++k) other.backend(k).restore(states[k]);
    for (std::size_t k = 0; k < 3; ++k) CHECK_FALSE(other.backend(k).needs_calibration());
    check_same_bits(other.backend(1).state().tensors, states[1].tensors);
    other.train_window(window_of(batches, 1), WindowIndex{2});
    check_same_bits(other.tensors(""), after);

    other.backend(1).restore(fresh);  // window 0 after calibration: nothing has to be fitted again
    CHECK_FALSE(other.backend(1).needs_calibration());
    check_same_bits(other.backend(1).state().tensors, fresh.tensors);
  }
}

TEST_CASE("simulated stages that calibrate notice other rows and other targets") {
  const std::vector<MicroBatch> batches = reference_batches();
  const auto run = [&](std::size_t first, std::size_t count, bool again) {
    std::vector<std::unique_ptr<StageBackend>> stages;
    std::vector<StageBackend*> pointers;
    for (std::size_t k = 0; k < 2; ++k) {
      stages.push_back(make_simulated_backend(StageIndex{k}, 8, {}, true));
      pointers.push_back(stages.back().get());
    }
    std::vector<Entry> entries;
    for (std::size_t i = first; i < first + count; ++i) {
      entries.push_back({{WindowIndex{0}, i}, Incarnation{1}, batches[i].layout, batches[i].ids});
    }
    CHECK(stages[0]->needs_calibration());
    CHECK(calibrate(pointers, entries));
    if (again) {
      const StageState state = stages[0]->state();
      stages[0] = make_simulated_backend(StageIndex{0}, 8, {}, true);
      stages[0]->restore(state);
    }
    CHECK_FALSE(stages[0]->needs_calibration());
    stages[0]->begin({{WindowIndex{1}, 0}, Incarnation{1}, batches[0].layout, batches[0].ids});
    stages[0]->finish({WindowIndex{1}, 0});
    stages[0]->step(WindowIndex{1});
    return stages[0]->state().tensors.at("lora.simulated").item<double>();
  };
  CHECK(run(0, 3, false) == run(0, 3, true));
  CHECK(run(0, 3, false) != run(0, 2, false));
  CHECK(run(0, 3, false) != run(1, 3, false));
}

TEST_CASE("in its warm-up an adapter head is trained alone") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  SequentialStages stages(model, partition_of(bounds), settings_with(HeadKind::adapter));
  const TensorMap start = lora_of(stages, 0);
  const TensorMap last_start = lora_of(stages, 2);
  const at::Tensor head_start = stages.tensors("head.").at("model.layers.1.readout.W1");
  stages.train_window(window_of(batches, 0), WindowIndex{1});
  check_same_bits(lora_of(stages, 0), start);
  CHECK_FALSE(lora_of(stages, 2).begin()->second.equal(last_start.begin()->second));  // it has another head
  CHECK_FALSE(stages.tensors("head.").at("model.layers.1.readout.W2").abs().max().item<double>() == 0);
  stages.train_window(window_of(batches, 1), WindowIndex{2});
  CHECK_FALSE(lora_of(stages, 0).begin()->second.equal(start.begin()->second));
  CHECK_FALSE(stages.tensors("head.").at("model.layers.1.readout.W1").equal(head_start));
  // Its first step is AdamW's first: lr sign(g), whatever the head's step count.
  TrainingSettings plain = settings_with(HeadKind::adapter);
  plain.optimizer.weight_decay = 0;
  SequentialStages decayless(model, partition_of(bounds), plain);
  const TensorMap before = lora_of(decayless, 0);
  decayless.train_window(window_of(batches, 0), WindowIndex{1});
  decayless.train_window(window_of(batches, 1), WindowIndex{2});
  for (const auto& [name, tensor] : lora_of(decayless, 0)) {
    if (name.find("lora_B") == std::string::npos) continue;
    CHECK(tensor.sub(before.at(name)).abs().max().item<double>() == Approx(1e-3).epsilon(1e-3));
  }
}

TEST_CASE("a stage that is not trained only forwards, and the trained ones do as if it were frozen") {
  install_memory_accounting();
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  TrainingSettings settings = settings_with(HeadKind::fixed);
  SequentialStages all(model, partition_of(bounds), settings);
  settings.trained_stages = {2};
  SequentialStages last(model, partition_of(bounds), settings);
  const TensorMap start = lora_of(last, 0);
  const auto reports = last.train_window(window_of(batches, 0), WindowIndex{1});
  const auto expected = all.train_window(window_of(batches, 0), WindowIndex{1});
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(reports[i][0].loss == 0);
    CHECK(reports[i][0].task_loss == 0);
    CHECK(reports[i][0].supervised_rows == expected[i][0].supervised_rows);
    CHECK(reports[i][0].examples == expected[i][0].examples);
    CHECK(reports[i][2].loss == expected[i][2].loss);  // B is zero in the first window
  }
  CHECK(last.steps()[0].gradient_norm == 0);
  CHECK(last.steps()[0].micro_batches == 4);
  CHECK(last.backend(0).state().window == WindowIndex{1});
  check_same_bits(lora_of(last, 0), start);
  check_same_bits(lora_of(last, 2), lora_of(all, 2));
  for (const auto& [name, tensor] : last.backend(0).state().tensors) CHECK(name.starts_with("lora."));
  CHECK(last.backend(0).state().metadata == last.backend(2).state().metadata);
  CHECK(last.account(0).peak_bytes(MemoryComponent::activations) <
        all.account(0).peak_bytes(MemoryComponent::activations));
  CHECK(last.account(0).peak_bytes(MemoryComponent::loss) == 0);

  // An adapter that comes from elsewhere is used all the same.
  const TensorMap adapter = read_adapter("tiny-llama", "qv");
  all.start_from(adapter);
  last.start_from(adapter);
  all.train(batches[0], {WindowIndex{1}, 0});
  last.train(batches[0], {WindowIndex{1}, 0});
  CHECK(last.hidden()[0].equal(all.hidden()[0]));
  CHECK_FALSE(last.hidden()[0].equal(SequentialStages(model, partition_of(bounds), settings)
                                         .backend(0)
                                         .begin({{}, Incarnation{1}, batches[0].layout, batches[0].ids})));
}

TEST_CASE("inner stages learn at their own rate, and settings that cannot be are refused") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  TrainingSettings settings = settings_with(HeadKind::fixed);
  settings.optimizer.inner_learning_rate_scale = 0.05;
  SequentialStages stages(model, partition_of(bounds), settings);
  stages.train_window(window_of(reference_batches(), 0), WindowIndex{1});
  CHECK(stages.steps()[0].learning_rate == Approx(5e-5).epsilon(1e-12));
  CHECK(stages.steps()[2].learning_rate == Approx(1e-3).epsilon(1e-12));

  const auto refused = [&](auto change, const std::string& what) {
    TrainingSettings wrong = settings_with(HeadKind::fixed);
    change(wrong);
    MemoryAccount account;
    CHECK_THROWS_WITH(make_chunk_backend(model, StageIndex{1}, partition_of(bounds), wrong, account),
                      Catch::Contains(what));
  };
  refused([](TrainingSettings& s) { s.trained_stages = {3}; }, "stage 3");
  refused([](TrainingSettings& s) { s.trained_stages.emplace(); }, "at least one");
  refused([](TrainingSettings& s) { s.optimizer.inner_learning_rate_scale = 0; }, "inner stages");
  refused([](TrainingSettings& s) { s.loss.alpha = 0; }, "alpha");
  refused([](TrainingSettings& s) { s.loss.label_smoothing = 1; }, "smoothing");
  refused([](TrainingSettings& s) { s.loss.last_head.kind = HeadKind::calibrated; }, "inner stages");
  refused([](TrainingSettings& s) { s.loss.inner_head.kind = HeadKind::restricted; }, "token");
  refused([](TrainingSettings& s) { s.loss.inner_head.ridge = 0; }, "ridge");
  refused([](TrainingSettings& s) { s.loss.inner_head.bottleneck_rank = 0; }, "bottleneck");
  refused(
      [](TrainingSettings& s) {
        s.loss.inner_head.kind = HeadKind::adapter;
        s.loss.alpha = 0.5;
      },
      "previous stage's readout");
}

}  // namespace zerolock::test
