/// Backpropagation across stages: GPipe's, 1F1B's and PipeDream's orders of forwards and backwards against
/// the reference computations, against one stage, and in memory.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <deque>
#include <sstream>

#include "tensors/base/error.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

/// What one stage does, in order: "F3" the forward of micro-batch 3, "B3" its backward, "S" a step.
using StageOrder = std::vector<std::string>;

StageOrder order_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// A step after every `per` backwards.
StageOrder with_steps(const StageOrder& order, std::size_t per) {
  StageOrder result;
  std::size_t backwards = 0;
  for (const std::string& step : order) {
    result.push_back(step);
    if (step[0] == 'B' && ++backwards % per == 0) result.emplace_back("S");
  }
  return result;
}

/// Three windows of four micro-batches each, flushed.
StageOrder three_windows(const std::string& window) {
  StageOrder result;
  for (std::size_t w = 0; w < 3; ++w) {
    for (const std::string& step : order_of(window)) {
      result.push_back(step == "S" ? step : step[0] + std::to_string(4 * w + std::stoul(step.substr(1))));
    }
  }
  return result;
}

const std::vector<StageOrder> gpipe(3, three_windows("F0 F1 F2 F3 B3 B2 B1 B0 S"));
const std::vector<StageOrder> one_forward_one_backward = {three_windows("F0 F1 F2 B0 F3 B1 B2 B3 S"),
                                                          three_windows("F0 F1 B0 F2 B1 F3 B2 B3 S"),
                                                          three_windows("F0 B0 F1 B1 F2 B2 F3 B3 S")};

/// Stages that pass hidden states and gradients to each other, each in an order of its own.
class PipelinedStages {
 public:
  PipelinedStages(const std::shared_ptr<const ModelFiles>& model, const TrainingSettings& settings,
                  GradientReach reach, std::vector<MicroBatch> batches)
      : batches_(std::move(batches)) {
    const std::vector<LayerRange> partition = partition_of({2, 4, 6});
    for (std::size_t k = 0; k < partition.size(); ++k) {
      accounts_.push_back(std::make_unique<MemoryAccount>());
      backends_.push_back(
          make_chunk_backend(model, StageIndex{k}, partition, settings, *accounts_.back(), reach));
    }
    StageState state;
    for (const auto& [name, tensor] : read_adapter("tiny-llama", "qv"))
      state.tensors["lora." + name] = tensor;
    for (const auto& backend : backends_) backend->restore(state);
  }

  void run(const std::vector<StageOrder>& orders) {
    std::vector<std::size_t> done(orders.size(), 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t k = 0; k < orders.size(); ++k) {
        while (done[k] < orders[k].size() && carry_out(k, orders[k][done[k]])) {
          ++done[k];
          moved = true;
        }
      }
    }
    for (std::size_t k = 0; k < orders.size(); ++k) REQUIRE(done[k] == orders[k].size());
  }

  [[nodiscard]] TensorMap weights() const { return all(*this); }
  [[nodiscard]] const std::map<std::size_t, double>& losses() const { return losses_; }
  /// All stages' weights after each of their steps.
  [[nodiscard]] const std::vector<TensorMap>& after_step() const { return after_step_; }
  [[nodiscard]] MemoryAccount& account(std::size_t stage) { return *accounts_[stage]; }
  [[nodiscard]] StageBackend& backend(std::size_t stage) { return *backends_[stage]; }

 private:
  static TensorMap all(const PipelinedStages& stages) {
    TensorMap found;
    for (const auto& backend : stages.backends_) add_weights(*backend, found);
    return found;
  }
  static void add_weights(const StageBackend& backend, TensorMap& into) {
    for (const auto& [name, tensor] : backend.state().tensors) {
      if (name.starts_with("lora.")) into[name.substr(5)] = tensor;
    }
  }

  /// False if what it needs of its neighbours is not there yet.
  bool carry_out(std::size_t stage, const std::string& step) {
    if (step == "S") {
      const std::size_t count = steps_[stage]++;
      backends_[stage]->step(WindowIndex{count + 1});
      if (after_step_.size() <= count) after_step_.resize(count + 1);
      add_weights(*backends_[stage], after_step_[count]);
      return true;
    }
    const std::size_t i = std::stoul(step.substr(1));
    return step[0] == 'F' ? forward(stage, i) : backward(stage, i);
  }

  bool forward(std::size_t stage, std::size_t i) {
    if (stage > 0 && !hidden_.contains({stage, i})) return false;
    const at::Tensor payload = stage == 0 ? batches_[i].ids : hidden_.extract({stage, i}).mapped();
    hidden_[{stage + 1, i}] =
        backends_[stage]->begin({position(i), Incarnation{1}, batches_[i].layout, payload});
    return true;
  }

  bool backward(std::size_t stage, std::size_t i) {
    const bool last = stage + 1 == backends_.size();
    if (!last && !gradients_.contains({stage, i})) return false;
    at::Tensor gradient = last ? at::Tensor() : gradients_.extract({stage, i}).mapped();
    BackwardResult result = backends_[stage]->backpropagate(position(i), std::move(gradient));
    if (last) losses_[i] = result.report.loss;
    CHECK(result.input_gradient.defined() == (stage > 0));
    if (stage > 0) gradients_[{stage - 1, i}] = std::move(result.input_gradient);
    return true;
  }

  static BatchPosition position(std::size_t i) { return {WindowIndex{1}, i}; }

  std::vector<MicroBatch> batches_;
  std::vector<std::unique_ptr<MemoryAccount>> accounts_;
  std::vector<std::unique_ptr<StageBackend>> backends_;
  std::map<std::pair<std::size_t, std::size_t>, at::Tensor> hidden_;     // by the stage they go to
  std::map<std::pair<std::size_t, std::size_t>, at::Tensor> gradients_;  // by the stage they go to
  std::map<std::size_t, double> losses_;
  std::map<std::size_t, std::size_t> steps_;
  std::vector<TensorMap> after_step_;
};

TrainingSettings settings_of(const nlohmann::json& schedule, ComputeType compute) {
  TrainingSettings settings;
  settings.lora = {4, 16, false, {"q_proj", "v_proj"}};
  settings.compute = compute;
  settings.optimizer.learning_rate = schedule["eta0"];
  if (schedule["kind"] == "inv_sqrt") {
    settings.optimizer.schedule = ScheduleKind::inverse_sqrt;
    settings.optimizer.schedule_offset = schedule["gamma"];
  }
  return settings;
}

TrainingSettings constant_rate(ComputeType compute = ComputeType::fp32) {
  return settings_of({{"kind", "const"}, {"eta0", 1e-3}}, compute);
}

void compare(const TensorMap& computed, const TensorMap& reference, const std::string& prefix,
             double tolerance) {
  for (const auto& [name, expected] : reference) {
    if (!name.starts_with(prefix)) continue;
    INFO(name);
    REQUIRE(computed.contains(name.substr(prefix.size())));
    CHECK(largest_difference(computed.at(name.substr(prefix.size())), expected) < tolerance);
  }
}

void same_bits(const TensorMap& one, const TensorMap& other) {
  REQUIRE(one.size() == other.size());
  for (const auto& [name, tensor] : one) {
    INFO(name);
    CHECK(tensor.equal(other.at(name)));
  }
}

}  // namespace

TEST_CASE("flushed schedules across stages equal the reference of plain back-propagation") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const nlohmann::json reference = read_json(reference_file("D_bp.json"));
  for (const std::string name : {"const", "sqrt_g1"}) {
    const auto file = reference_file_if_any("D_bp_" + name + ".safetensors");
    if (!file) continue;
    const TensorMap tensors = read_tensors(*file);
    const nlohmann::json& one = reference["cases"]["bp_" + name];
    for (const bool fp64 : {false, true}) {
      for (const auto& orders : {gpipe, one_forward_one_backward}) {
        INFO(name << ", fp64: " << fp64);
        PipelinedStages stages(model,
                               settings_of(one["schedule"], fp64 ? ComputeType::fp64 : ComputeType::fp32),
                               GradientReach::model, reference_batches());
        stages.run(orders);
        for (std::size_t i = 0; i < 12; ++i) {
          CHECK(std::abs(stages.losses().at(i) - one["losses_f64"][i / 4][i % 4].get<double>()) <
                (fp64 ? 1e-9 : 1e-5));
        }
        for (std::size_t w = 0; w < 3; ++w) {
          compare(stages.after_step()[w], tensors, "weight.after_w" + std::to_string(w) + ".", 5e-6);
        }
        compare(stages.weights(), tensors, "weight64.after_w2.", fp64 ? 1e-9 : 5e-6);
      }
    }
  }
}

TEST_CASE("stages that add gradients in one stage's order have its bits, with recomputation too") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  SequentialStages whole(model, {{0, 6}}, constant_rate());
  whole.start_from(read_adapter("tiny-llama", "qv"));
  for (std::size_t w = 0; w < 3; ++w) whole.train_window(window_of(batches, w), WindowIndex{w + 1});
  for (const bool recompute : {false, true}) {
    TrainingSettings settings = constant_rate();
    settings.recompute = recompute;
    PipelinedStages stages(model, settings, GradientReach::model, batches);
    stages.run(one_forward_one_backward);
    same_bits(stages.weights(), whole.tensors("lora."));
  }
}

TEST_CASE("PipeDream equals the reference, with steps after every micro-batch and after every window") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const nlohmann::json reference = read_json(reference_file("D_bp.json"));
  for (const std::string name : {"update_every_microbatch_n6", "update_every_4_microbatches_n12"}) {
    const nlohmann::json& one = reference["cases"]["pipedream_" + name];
    const TensorMap tensors = read_tensors(reference_file("D_pipedream_" + name + ".safetensors"));
    const std::size_t per = one["micro_batches_per_update"];
    const std::size_t count = one["micro_batches"];
    std::vector<StageOrder> orders;
    for (const auto& order : one["op_order_per_stage"]) orders.push_back(with_steps(order, per));
    for (const bool fp64 : {false, true}) {
      INFO(name << ", fp64: " << fp64);
      std::vector<MicroBatch> batches = reference_batches();
      batches.resize(count);
      TrainingSettings settings = constant_rate(fp64 ? ComputeType::fp64 : ComputeType::fp32);
      PipelinedStages stages(model, settings, GradientReach::stashed, batches);
      stages.run(orders);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(std::abs(stages.losses().at(i) - one["losses_f64"][i].get<double>()) < (fp64 ? 1e-9 : 1e-5));
      }
      REQUIRE(stages.after_step().size() == count / per);
      for (std::size_t u = 0; u < count / per; ++u) {
        compare(stages.after_step()[u], tensors, "weight.after_u" + std::to_string(u) + ".", 5e-6);
      }
      compare(stages.weights(), tensors, "weight64.after_u" + std::to_string(count / per - 1) + ".",
              fp64 ? 1e-9 : 5e-6);
      // Gradients of single micro-batches: what a step of size 1 moves the weights by.
      if (per != 1 || !fp64) continue;
      settings.optimizer = {};
      settings.optimizer.kind = OptimizerKind::sgd;
      settings.optimizer.learning_rate = 1;
      settings.optimizer.weight_decay = 0;
      PipelinedStages first(model, settings, GradientReach::stashed, {batches[0]});
      first.run(std::vector<StageOrder>(3, order_of("F0 B0 S")));
      const TensorMap start = read_adapter("tiny-llama", "qv");
      TensorMap gradients;
      for (const auto& [weight, moved] : first.weights()) {
        gradients[weight] = start.at(weight).to(at::kDouble).sub(moved);
      }
      compare(gradients, tensors, "mbgrad.mb0.", 2e-5);
    }
  }
}

TEST_CASE("old weights are kept for open micro-batches only, charged to weights, and never twice") {
  install_memory_accounting();
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches = reference_batches();
  PipelinedStages stages(model, constant_rate(), GradientReach::stashed, batches);
  const std::int64_t before = stages.account(0).current_bytes(MemoryComponent::weights);
  std::int64_t adapter_bytes = 0;
  for (const auto& [name, tensor] : stages.backend(0).state().tensors) {
    if (name.starts_with("lora.")) adapter_bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  const auto held = [&] { return stages.account(0).current_bytes(MemoryComponent::weights) - before; };
  stages.run({order_of("F0 F1 F2"), order_of("F0 F1"), order_of("F0 B0 S F1 B1 S")});
  CHECK(held() == 0);
  stages.run({{}, order_of("B0"), {}});
  stages.run({order_of("B0 S"), {}, {}});
  CHECK(held() >= adapter_bytes);  // allocations are rounded up
  CHECK(held() < 2 * adapter_bytes);
  const std::int64_t one_version = held();
  stages.run({order_of("F3"), order_of("F2 B1"), {}});
  stages.run({order_of("B1 S"), {}, {}});
  CHECK(held() == 2 * one_version);  // that of micro-batch 2, and that of micro-batch 3
  stages.run({{}, order_of("F3 B2"), order_of("F2 B2 F3 B3")});
}

TEST_CASE("a tape for each open micro-batch is what a schedule costs in activations") {
  install_memory_accounting();
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const std::vector<MicroBatch> batches(12, reference_batches()[2]);
  const auto peak_of = [&](const std::vector<StageOrder>& orders, std::size_t stage) {
    PipelinedStages stages(model, constant_rate(), GradientReach::model, batches);
    stages.account(stage).reset_peaks();
    stages.run(orders);
    return stages.account(stage).peak_bytes(MemoryComponent::activations);
  };
  const auto one_tape = peak_of(std::vector<StageOrder>(3, three_windows("F0 B0 F1 B1 F2 B2 F3 B3 S")), 0);
  // Temporaries of one layer come on top of the tapes.
  const std::int64_t of_gpipe = peak_of(gpipe, 0);
  CHECK(of_gpipe > 3 * one_tape);
  CHECK(of_gpipe < 4 * one_tape);
  const std::int64_t first = peak_of(one_forward_one_backward, 0);
  CHECK(first > 2 * one_tape);
  CHECK(first < 3 * one_tape);
  CHECK(peak_of(one_forward_one_backward, 1) < first);
}

TEST_CASE("what only stages with losses of their own can have is refused across stages") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  MemoryAccount account;
  const auto refused = [&](const auto& change, const std::string& message) {
    TrainingSettings settings;
    change(settings);
    CHECK_THROWS_WITH(make_chunk_backend(model, StageIndex{0}, partition_of({2, 4, 6}), settings, account,
                                         GradientReach::model),
                      Catch::Contains(message) && Catch::Contains("reaches all stages"));
  };
  refused([](TrainingSettings& settings) { settings.loss.alpha = 0.5; }, "alpha");
  refused([](TrainingSettings& settings) { settings.loss.last_head.kind = HeadKind::adapter; }, "head");
  refused([](TrainingSettings& settings) { settings.trained_stages = {2}; }, "trained stages");
  refused([](TrainingSettings& settings) { settings.optimizer.inner_learning_rate_scale = 2; }, "scale");
  refused([](TrainingSettings& settings) { settings.optimizer.clip_norm = 1; }, "clipping");
}

TEST_CASE("a stage's way of finishing is the one it was made for") {
  const auto model = open_reference_model("tiny-llama");
  REQUIRE(model);
  const MicroBatch batch = reference_batches().front();
  const BatchPosition position{WindowIndex{1}, 0};
  MemoryAccount account;
  for (const GradientReach reach : {GradientReach::stage, GradientReach::model}) {
    const auto backend =
        make_chunk_backend(model, StageIndex{0}, partition_of({2, 4, 6}), constant_rate(), account, reach);
    backend->begin({position, Incarnation{1}, batch.layout, batch.ids});
    if (reach == GradientReach::stage) {
      CHECK_THROWS_AS(backend->backpropagate(position, {}), std::logic_error);
    } else {
      CHECK_THROWS_AS(backend->finish(position), std::logic_error);
      CHECK_THROWS_AS(backend->step(WindowIndex{1}), std::logic_error);
      CHECK_THROWS_AS(backend->backpropagate(position, {}), std::logic_error);
    }
  }
}

}  // namespace zerolock::test
