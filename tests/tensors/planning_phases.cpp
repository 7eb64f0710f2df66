/// What the phases of stages are said to take. How long that is depends on the machine; how it follows from
/// what was measured does not.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/planning/phase_times.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

constexpr std::int64_t layers = 8;
constexpr GradientReach reaches[] = {GradientReach::stage, GradientReach::model, GradientReach::stashed};

std::shared_ptr<const ModelFiles> small_model() {
  ModelConfig config;
  config.layers = layers;
  config.width = 32;
  config.heads = 2;
  config.key_value_heads = 2;
  config.head_dimension = 16;
  config.feed_forward_width = 64;
  config.vocabulary = 100;
  config.context_length = 64;
  return make_random_model(config, 1, StorageFormat::f32);
}

Entry micro_batch() {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, 6, 12};
  layout->supervised_rows = {4, 10};
  layout->targets = {7, 8};
  return {{WindowIndex{1}, 0}, Incarnation{0}, layout, at::arange(12, at::kLong)};
}

PhaseTimes times(int runs = 1) {
  std::map<GradientReach, TrainingSettings> settings;
  for (const GradientReach reach : reaches) settings[reach].lora.targets = {"q_proj", "v_proj"};
  return {small_model(), settings, {micro_batch()}, runs};
}

PlannedStage stage(std::uint64_t index, std::uint64_t stages, std::int64_t count) {
  return {StageIndex{index}, stages, {0, count}};
}

}  // namespace

TEST_CASE("every phase of every kind of stage takes time, under every schedule") {
  PhaseTimes measured = times();
  for (const GradientReach reach : reaches) {
    for (const PlannedStage& one : {stage(0, 3, 1), stage(1, 3, 2), stage(2, 3, 5), stage(0, 1, layers)}) {
      const PhaseSeconds seconds = measured.of(one, reach);
      CHECK(seconds.forward > 0);
      CHECK(seconds.backward > 0);
      CHECK(seconds.step > 0);
      CHECK(seconds.of_micro_batch(4) == Approx(seconds.forward + seconds.backward + seconds.step / 4));
    }
  }
}

TEST_CASE("times are measured once, linear in the layers, and forwards are the same under every schedule") {
  PhaseTimes measured = times(3);
  const PhaseSeconds two = measured.of(stage(1, 3, 2), GradientReach::stage);
  const PhaseSeconds four = measured.of(stage(1, 3, 4), GradientReach::stage);
  const PhaseSeconds six = measured.of(stage(1, 3, 6), GradientReach::stage);
  CHECK(six.forward - four.forward == Approx(four.forward - two.forward));
  CHECK(six.backward - four.backward == Approx(four.backward - two.backward));
  CHECK(measured.of(stage(1, 3, 2), GradientReach::stage).backward == two.backward);
  CHECK(measured.of(stage(1, 3, 6), GradientReach::stashed).forward == six.forward);
  CHECK(measured.of(stage(1, 5, 6), GradientReach::stage).backward == six.backward);  // an inner one as well
}

}  // namespace zerolock::test
