/// The theory's quantities against direct computation, and against what training itself reports.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tensors/base/error.hpp"
#include "tensors/training/theory_probe.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

const std::vector<LayerRange> thirds = partition_of({2, 4, 6});

TrainingSettings theory_settings(LossForm form) {
  TrainingSettings settings;
  settings.compute = ComputeType::fp64;
  settings.loss.alpha = 0.4;
  settings.loss.form = form;
  settings.loss.label_smoothing = 0.2;
  settings.optimizer.kind = OptimizerKind::sgd;
  settings.optimizer.learning_rate = 0.05;
  settings.optimizer.weight_decay = 0;
  return settings;
}

std::vector<Entry> entries_of(const std::vector<MicroBatch>& batches) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    entries.push_back({{WindowIndex{0}, i}, Incarnation{}, batches[i].layout, batches[i].ids});
  }
  return entries;
}

std::vector<StageState> states_of(SequentialStages& stages) {
  std::vector<StageState> states;
  for (std::size_t k = 0; k < thirds.size(); ++k) states.push_back(stages.backend(k).state());
  return states;
}

/// log softmax(RMSNorm(h) W^T) at the supervised rows, written out.
at::Tensor direct_log_probabilities(const ModelFiles& model, const at::Tensor& hidden,
                                    const MicroBatch& batch) {
  const at::Tensor rows = at::tensor(batch.layout->supervised_rows, at::kLong);
  const at::Tensor h = hidden.index_select(0, rows);
  const at::Tensor norm = model.tensor("model.norm.weight").expand(at::kDouble);
  const at::Tensor head = model.tensor("lm_head.weight").expand(at::kDouble);
  const at::Tensor scale = h.pow(2).mean(1, true).add(model.config().rms_norm_epsilon).rsqrt();
  return at::log_softmax(h.mul(scale).mul(norm).mm(head.t()), 1);
}

double mean_divergence(const at::Tensor& log_p, const at::Tensor& log_q) {
  return log_p.exp().mul(log_p - log_q).sum(1).mean().item<double>();
}

at::Tensor direct_label_distribution(const MicroBatch& batch, std::int64_t outputs, double smoothing) {
  const at::Tensor targets = at::tensor(batch.layout->targets, at::kLong);
  return at::one_hot(targets, outputs).to(at::kDouble).mul(1 - smoothing).add(smoothing / outputs);
}

}  // namespace

TEST_CASE("the geometric-mean target minimises the weighted divergences from label and previous readout") {
  constexpr double alpha = 0.3;
  constexpr double smoothing = 0.1;
  const at::Tensor log_q = at::log_softmax(random_tensor({4, 9}, 5).to(at::kDouble), 1);
  const std::vector<std::int64_t> targets{0, 8, 3, 3};
  const at::Tensor log_l = log_geometric_target({}, targets, 9, 1, smoothing);
  CHECK(log_l.exp().sum(1).sub(1).abs().max().item<double>() < 1e-14);
  CHECK(log_l.exp()[1][8].item<double>() == Approx(0.9 + 0.1 / 9));
  CHECK(log_l.exp()[1][7].item<double>() == Approx(0.1 / 9));
  const at::Tensor log_target = log_geometric_target(log_q, targets, 9, alpha, smoothing);
  const auto objective = [&](const at::Tensor& log_p) {
    return alpha * mean_divergence(log_p, log_l) + (1 - alpha) * mean_divergence(log_p, log_q);
  };
  const double least = objective(log_target);
  for (std::int64_t seed = 0; seed < 8; ++seed) {
    const at::Tensor other =
        at::log_softmax(log_target + 0.1 * random_tensor({4, 9}, 30 + seed).to(at::kDouble), 1);
    CHECK(objective(other) > least);
    // The objective is the divergence from the target and a constant.
    CHECK(objective(other) - least == Approx(mean_divergence(other, log_target)).epsilon(1e-9));
  }
}

TEST_CASE("losses and gradients of the theory are those of training, and the rest is computed directly") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = window_of(reference_batches(), 0);
  const MicroBatch& row = batches[0];
  for (const LossForm form : {LossForm::weighted_terms, LossForm::target_divergence}) {
    INFO("form " << static_cast<int>(form));
    const TrainingSettings settings = theory_settings(form);
    SequentialStages stages(model, thirds, settings);
    stages.start_from(
        read_tensors(reference_file("models/tiny-llama/adapters/qv/adapter_model.safetensors")));
    TheoryProbe probe(model, thirds, settings, entries_of({row}));
    const TheoryPoint start = probe.measure(states_of(stages));
    const std::vector<LossReport> reports = stages.train(row, {WindowIndex{1}, 0});
    const std::vector<at::Tensor> hidden = stages.hidden();
    std::vector<at::Tensor> log_p;
    double squares = 0;
    for (std::size_t k = 0; k < thirds.size(); ++k) {
      INFO("stage " << k);
      log_p.push_back(direct_log_probabilities(*model, hidden[k], row));
      CHECK(start.stages[k].loss == reports[k].loss);
      const double norm = stages.backend(k).step(WindowIndex{1}).gradient_norm;
      CHECK(start.stages[k].gradient_norm == norm);
      squares += norm * norm;
      at::Tensor target = direct_label_distribution(row, log_p[k].size(1), 0.2);
      if (k > 0) target = target.pow(0.4).mul(log_p[k - 1].exp().pow(0.6));
      const at::Tensor log_target = target.div(target.sum(1, true)).log();
      CHECK(start.stages[k].target_distance == Approx(mean_divergence(log_p[k], log_target)).epsilon(1e-9));
      if (k > 0 && form == LossForm::target_divergence) {
        CHECK(start.stages[k].target_distance == Approx(start.stages[k].loss).epsilon(1e-9));
      }
      CHECK(start.stages[k].drift == 0);
      CHECK(start.stages[k].readout_change == 0);
    }
    CHECK(start.gradient_norm() == Approx(std::sqrt(squares) / 3));

    // After a step: the same weights on old and on new inputs.
    const TheoryPoint next = probe.measure(states_of(stages));
    const std::vector<LossReport> after = stages.train(row, {WindowIndex{2}, 0});
    for (std::size_t k = 0; k < thirds.size(); ++k) {
      INFO("stage " << k);
      CHECK(next.stages[k].loss == after[k].loss);
      CHECK(next.stages[k].descent + next.stages[k].drift ==
            Approx(next.stages[k].loss - start.stages[k].loss).margin(1e-12));
      CHECK(next.stages[k].descent < 0);
      const at::Tensor log_now = direct_log_probabilities(*model, stages.hidden()[k], row);
      CHECK(next.stages[k].readout_change == Approx(mean_divergence(log_now, log_p[k])).epsilon(1e-7));
    }
    CHECK(next.stages[0].drift == 0);
    CHECK(std::abs(next.stages[1].drift) > 1e-9);
    // Stage 1's new weights on what stage 0 sent before.
    SequentialStages again(model, thirds, settings);
    again.backend(1).restore(states_of(stages)[1]);
    again.backend(1).begin({{WindowIndex{1}, 0}, Incarnation{}, row.layout, hidden[0]});
    const double on_old_input = again.backend(1).finish({WindowIndex{1}, 0}).loss;
    CHECK(next.stages[1].drift == next.stages[1].loss - on_old_input);
    CHECK(next.drift() == Approx((next.stages[1].drift + next.stages[2].drift) / 3));
  }
}

TEST_CASE("where only the last stage moves there is no drift") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = window_of(reference_batches(), 0);
  const TrainingSettings settings = theory_settings(LossForm::weighted_terms);
  SequentialStages stages(model, thirds, settings);
  TheoryProbe probe(model, thirds, settings, entries_of(batches));
  std::vector<StageState> states = states_of(stages);
  const TheoryPoint start = probe.measure(states);
  stages.train_window(batches, WindowIndex{1});
  states[2] = states_of(stages)[2];
  const TheoryPoint next = probe.measure(states);
  CHECK(next.drift() == 0);
  CHECK(next.stages[0].loss == start.stages[0].loss);
  CHECK(next.stages[1].readout_change == Approx(0).margin(1e-15));
  CHECK(next.stages[2].readout_change > 0);
  CHECK(next.stages[2].descent < 0);
}

TEST_CASE("the theory refuses readouts that move, stages that stand still and rows without a label") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = window_of(reference_batches(), 0);
  TrainingSettings settings = theory_settings(LossForm::weighted_terms);
  settings.loss.alpha = 1;
  const auto make = [&](const std::vector<MicroBatch>& rows) {
    return TheoryProbe(model, thirds, settings, entries_of(rows));
  };
  CHECK_THROWS_WITH(make({}), Catch::Contains("probe: needs at least one row"));
  MicroBatch silent = batches[0];
  auto layout = std::make_shared<MicroBatchLayout>(*batches[0].layout);
  layout->supervised_rows.clear();
  layout->targets.clear();
  silent.layout = layout;
  CHECK_THROWS_WITH(make({batches[0], silent}), Catch::Contains("micro-batch 1"));
  settings.trained_stages = std::set<std::uint64_t>{2};
  CHECK_THROWS_WITH(make(batches), Catch::Contains("--train-stages"));
  settings.trained_stages.reset();
  settings.loss.inner_head.kind = HeadKind::adapter;
  CHECK_THROWS_WITH(make(batches), Catch::Contains("--head"));
}

}  // namespace zerolock::test
