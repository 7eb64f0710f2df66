/// Several micro-batches in one call, as a stage does that makes up for an absence.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <set>

#include "tensors/training/joint_backend.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

constexpr std::int64_t width = 64;

/// Micro-batches into an inner stage: one to three sequences each, of different lengths.
std::vector<Entry> inner_entries(std::size_t count, at::ScalarType type) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    auto layout = std::make_shared<MicroBatchLayout>();
    for (std::size_t s = 0; s <= i % 3; ++s) {
      const auto length = static_cast<std::int64_t>(3 + (5 * i + 7 * s) % 23);
      const std::int64_t end = layout->rows() + length;
      layout->sequence_offsets.push_back(end);
      if (i % 2 == 0) layout->supervised_rows.push_back(end - 2);
      layout->supervised_rows.push_back(end - 1);
    }
    for (std::size_t r = 0; r < layout->supervised_rows.size(); ++r)
      layout->targets.push_back(static_cast<std::int64_t>((17 * i + r) % 300));
    at::Tensor payload = random_tensor({layout->rows(), width}, 50 + static_cast<int>(i)).to(type);
    entries.push_back({{WindowIndex{1}, i}, Incarnation{1}, layout, std::move(payload)});
  }
  return entries;
}

struct Trained {
  std::unique_ptr<MemoryAccount> account = std::make_unique<MemoryAccount>();  // outlives what it counts
  std::vector<at::Tensor> hidden;
  std::vector<LossReport> reports;
  StageState state;
};

/// A window of the middle stage, `together` micro-batches at a time, and another one from there.
Trained train(const TrainingSettings& settings, const std::vector<Entry>& entries, std::size_t together) {
  Trained trained;
  const auto backend = make_chunk_backend(open_reference_model("tiny-llama"), StageIndex{1},
                                          {{0, 2}, {2, 4}, {4, 6}}, settings, *trained.account);
  auto& joint = dynamic_cast<JointBackend&>(*backend);
  for (WindowIndex window{1}; window.value <= 2; window = window.next()) {
    for (std::size_t first = 0; first < entries.size(); first += together) {
      std::vector<Entry> some;
      std::vector<BatchPosition> positions;
      for (std::size_t i = first; i < std::min(entries.size(), first + together); ++i) {
        some.push_back(entries[i]);
        some.back().position.window = window;
        positions.push_back(some.back().position);
      }
      for (const at::Tensor& hidden : joint.begin_together(some)) trained.hidden.push_back(hidden);
      for (const LossReport& report : joint.finish_together(positions)) trained.reports.push_back(report);
    }
    backend->step(window);
  }
  trained.state = backend->state();
  return trained;
}

void check_close(const Trained& found, const Trained& expected, double tolerance) {
  REQUIRE(found.hidden.size() == expected.hidden.size());
  for (std::size_t i = 0; i < expected.hidden.size(); ++i) {
    INFO("micro-batch " << i);
    CHECK(at::allclose(found.hidden[i], expected.hidden[i], tolerance, tolerance));
    CHECK(found.reports[i].loss == Approx(expected.reports[i].loss).epsilon(tolerance));
    CHECK(found.reports[i].supervised_rows == expected.reports[i].supervised_rows);
    CHECK(found.reports[i].examples == expected.reports[i].examples);
  }
  for (const auto& [name, tensor] : expected.state.tensors) {
    INFO(name);
    CHECK(at::allclose(found.state.tensors.at(name), tensor, tolerance, tolerance));
  }
}

TrainingSettings all_targets(ComputeType compute) {
  TrainingSettings settings;
  settings.compute = compute;
  settings.loss.alpha = 0.5;
  settings.lora.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  settings.optimizer.kind = OptimizerKind::sgd;
  settings.optimizer.learning_rate = 1;
  return settings;
}

}  // namespace

TEST_CASE("micro-batches in one call train what they train one by one", "[together]") {
  const std::vector<Entry> entries = inner_entries(8, at::kDouble);
  for (const bool recompute : {false, true}) {
    TrainingSettings settings = all_targets(ComputeType::fp64);
    settings.recompute = recompute;
    const Trained expected = train(settings, entries, 1);
    for (const std::size_t together : {2, 3, 8}) {
      INFO(together << " together" << (recompute ? ", recomputed" : ""));
      check_close(train(settings, entries, together), expected, 1e-10);
    }
  }
}

TEST_CASE("micro-batches in one call may hold some without supervision, or a stage that is not trained",
          "[together]") {
  std::vector<Entry> entries = inner_entries(4, at::kDouble);
  auto silent = std::make_shared<MicroBatchLayout>(*entries[2].layout);
  silent->supervised_rows.clear();
  silent->targets.clear();
  entries[2].layout = silent;
  TrainingSettings settings = all_targets(ComputeType::fp64);
  check_close(train(settings, entries, 4), train(settings, entries, 1), 1e-10);
  settings.trained_stages = std::set<std::uint64_t>{2};
  check_close(train(settings, entries, 4), train(settings, entries, 1), 1e-10);
}

}  // namespace zerolock::test
