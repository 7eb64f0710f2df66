/// What the planner says a stage costs, against stages that are really run: operations exactly, memory by
/// component within a tenth.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/planning/head_memory.hpp"
#include "tensors/planning/stage_memory.hpp"
#include "tensors/planning/stage_operations.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {
namespace {

constexpr std::int64_t width = 96;

/// Large enough that what is planned is more than what no plan knows of.
std::shared_ptr<const ModelFiles> small_model(StorageFormat format, bool tied) {
  ModelConfig config;
  config.layers = 6;
  config.width = width;
  config.heads = 6;
  config.key_value_heads = 2;
  config.head_dimension = 16;
  config.feed_forward_width = 256;
  config.vocabulary = 1500;
  config.context_length = 256;
  config.tied_embeddings = tied;
  return make_random_model(config, 1, format);
}

std::vector<std::int64_t> some_tokens() {
  std::vector<std::int64_t> tokens;
  for (std::int64_t token = 0; token < 40; ++token) tokens.push_back(11 * token);
  return tokens;
}

/// Sequences of these tokens; the last rows of each are supervised.
MicroBatch micro_batch(const std::vector<std::int64_t>& lengths, std::int64_t supervised,
                       std::uint64_t seed) {
  auto layout = std::make_shared<MicroBatchLayout>();
  std::vector<std::int64_t> ids;
  for (const std::int64_t tokens : lengths) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (t + supervised >= tokens) {
        layout->supervised_rows.push_back(static_cast<std::int64_t>(ids.size()));
        layout->targets.push_back(some_tokens()[static_cast<std::size_t>(t) % 40]);
      }
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      ids.push_back(static_cast<std::int64_t>((seed >> 33U) % 1500));
    }
    layout->sequence_offsets.push_back(static_cast<std::int64_t>(ids.size()));
  }
  layout->check();
  return {at::tensor(ids, at::kLong), layout};
}

struct Case {
  std::string name;
  TrainingSettings settings;
};

HeadSettings head_of(HeadKind kind, bool some) {
  HeadSettings head;
  head.kind = kind;
  if (some) head.restricted_tokens = some_tokens();
  head.adapter_width = 24;
  head.adapter_warm_up = 0;
  head.bottleneck_rank = 20;
  return head;
}

/// Every head, alone and against a previous readout where that is possible.
std::vector<Case> every_head() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const HeadSettings& inner, double alpha) {
    Case made;
    made.name = name + ", alpha " + std::to_string(alpha);
    made.settings.loss.alpha = alpha;
    made.settings.loss.inner_head = inner;
    if (inner.kind != HeadKind::calibrated) made.settings.loss.last_head = inner;
    if (!inner.restricted_tokens.empty()) {
      made.settings.loss.last_head.restricted_tokens = inner.restricted_tokens;
      if (inner.kind == HeadKind::calibrated) made.settings.loss.last_head.kind = HeadKind::restricted;
    }
    cases.push_back(made);
  };
  for (const double alpha : {1.0, 0.5}) {
    add("static", head_of(HeadKind::fixed, false), alpha);
    add("restricted", head_of(HeadKind::restricted, true), alpha);
    for (const bool some : {false, true}) {
      const std::string of = some ? " of some tokens" : " of all tokens";
      add("calibrated" + of, head_of(HeadKind::calibrated, some), alpha);
      add("bottleneck" + of, head_of(HeadKind::bottleneck, some), alpha);
      if (alpha < 1) continue;
      add("adapter" + of, head_of(HeadKind::adapter, some), alpha);
      HeadSettings trained = head_of(HeadKind::bottleneck, some);
      trained.bottleneck_trained = true;
      add("trained bottleneck" + of, trained, alpha);
    }
  }
  return cases;
}

/// Every head, and the static one under every other setting that costs differ by.
std::vector<Case> every_case() {
  std::vector<Case> cases = every_head();
  const auto add = [&](const std::string& name, const std::function<void(TrainingSettings&)>& change) {
    Case made{name, {}};
    change(made.settings);
    cases.push_back(made);
  };
  add("all targets", [](auto& s) { s.lora.targets = all_targets(); });
  add("down_proj alone", [](auto& s) { s.lora.targets = {"down_proj"}; });
  add("recomputed", [](auto& s) { s.recompute = true; });
  add("recomputed, all targets", [](auto& s) {
    s.recompute = true;
    s.lora.targets = all_targets();
  });
  add("last stage alone", [](auto& s) { s.trained_stages = std::set<std::uint64_t>{2}; });
  add("last stage alone, calibrated before", [](auto& s) {
    s.trained_stages = std::set<std::uint64_t>{1};
    s.loss.alpha = 0.5;
    s.loss.inner_head.kind = HeadKind::calibrated;
  });
  add("first chunk compares", [](auto& s) {
    s.loss.alpha = 0.5;
    s.loss.first_chunk_consistency = true;
  });
  add("geometric mean", [](auto& s) {
    s.loss.alpha = 0.5;
    s.loss.form = LossForm::target_cross_entropy;
  });
  add("reverse-kl target", [](auto& s) {
    s.loss.alpha = 0.5;
    s.loss.form = LossForm::target_divergence;
  });
  add("embedded at the source", [](auto& s) { s.embed_at = EmbedAt::source; });
  add("SGD", [](auto& s) { s.optimizer.kind = OptimizerKind::sgd; });
  add("fp32 base", [](auto& s) { s.base = BaseFormat::fp32; });
  add("q8_0 base", [](auto& s) { s.base = BaseFormat::q8_0; });
  return cases;
}

std::vector<LayerRange> three_stages() {
  return partition_of({1, 4, 6});
}

/// What crosses boundary 0.
at::Tensor input_of(const ModelFiles& model, const TrainingSettings& settings, const MicroBatch& batch) {
  if (settings.embeds(StageIndex{0})) return batch.ids;
  return embed(model.tensor("model.embed_tokens.weight"), batch.ids, scalar_type(settings.compute));
}

/// Runs stage after stage on one micro-batch, calibrated with it first where that is needed.
struct Run {
  Run(const std::shared_ptr<const ModelFiles>& model, const TrainingSettings& settings,
      const MicroBatch& batch)
      : stages(model, three_stages(), settings) {
    calibrated = stages.calibrate({batch});
    std::vector<StageState> saved;  // stands while training goes on, as a checkpoint's copy does
    for (std::size_t k = 0; k < 3; ++k) saved.push_back(stages.backend(k).state());
    start_gemm_clock();
    at::Tensor payload = input_of(*model, settings, batch);
    for (std::size_t k = 0; k < 3; ++k) {
      const double before = gemm_use().flops;
      payload = stages.backend(k).begin({{WindowIndex{1}, 0}, Incarnation{1}, batch.layout, payload});
      stages.backend(k).finish({WindowIndex{1}, 0});
      operations.push_back(gemm_use().flops - before);
      stages.backend(k).step(WindowIndex{1});
    }
  }

  SequentialStages stages;
  bool calibrated = false;
  std::vector<double> operations;
};

PlannedStage stage_of(std::size_t k) {
  return {StageIndex{k}, 3, three_stages()[k]};
}

/// Planned and measured bytes of every component of every stage. What is under a KiB is left to itself.
void check_memory(const std::shared_ptr<const ModelFiles>& model, const TrainingSettings& settings,
                  const MicroBatch& batch = micro_batch({64, 51, 64, 23, 64}, 3, 5)) {
  Run run(model, settings, batch);
  const ModelSizes sizes = sizes_of(*model);
  for (std::size_t k = 0; k < 3; ++k) {
    StageLoad load;
    load.micro_batch = shape_of(*batch.layout);
    load.calibration_batch = load.micro_batch;
    load.calibration_rows = run.calibrated ? load.micro_batch.supervised_rows : 0;
    const PlannedMemory planned = stage_memory(sizes, settings, stage_of(k), load);
    for (std::size_t c = 0; c < memory_component_count; ++c) {
      const auto component = static_cast<MemoryComponent>(c);
      INFO("stage " << k << ", " << to_string(component));
      // bf16 products take scratch of oneDNN's own, which is charged to whatever is computed: of entries
      // alone it is a noticeable part.
      if (settings.compute == ComputeType::bf16 && component == MemoryComponent::buffers) continue;
      const auto measured = static_cast<double>(run.stages.account(k).peak_bytes(component));
      CHECK(static_cast<double>(planned.of(component)) == Approx(measured).epsilon(0.1).margin(1024));
    }
    INFO("stage " << k << " in all");
    const auto measured = static_cast<double>(run.stages.account(k).peak_total_bytes());
    CHECK(static_cast<double>(planned.total) == Approx(measured).epsilon(0.1));
  }
}

}  // namespace

TEST_CASE("the operations of every head's row are those that the head reports") {
  const auto model = small_model(StorageFormat::bf16, false);
  const ModelSizes sizes = sizes_of(*model);
  for (const Case& one : every_head()) {
    INFO(one.name);
    const HeadSettings& settings = one.settings.loss.inner_head;
    const auto head = make_readout_head(*model, settings, {"head.x", 3}, at::kFloat,
                                        make_token_rows(*model, settings.restricted_tokens, at::kFloat));
    CHECK(head_operations_per_row(settings, sizes.config) == head->operations_per_row());
    CHECK(HeadMemory(settings, sizes, one.settings).bytes() == static_cast<std::int64_t>(head->bytes()));
  }
}

TEST_CASE("planned operations are exactly those of the products that a stage computes") {
  const auto model = small_model(StorageFormat::q8_0, true);
  const ModelSizes sizes = sizes_of(*model);
  const MicroBatch batch = micro_batch({20, 7, 33}, 4, 3);
  for (const Case& one : every_case()) {
    INFO(one.name);
    const Run run(model, one.settings, batch);
    for (std::size_t k = 0; k < 3; ++k) {
      INFO("stage " << k);
      const StageOperations planned =
          stage_operations(sizes, one.settings, stage_of(k), shape_of(*batch.layout));
      CHECK(planned.total() == run.operations[k]);
      CHECK((planned.backward > 0) == one.settings.trains(StageIndex{k}));
    }
  }
  TrainingSettings settings;
  const MicroBatch longer = micro_batch({130, 300}, 4, 3);  // more than one block of queries
  const Run run(model, settings, longer);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(stage_operations(sizes, settings, stage_of(k), shape_of(*longer.layout)).total() ==
          run.operations[k]);
  }
  MicroBatchShape unsupervised = shape_of(*batch.layout);
  unsupervised.supervised_rows = 0;
  CHECK(stage_operations(sizes, settings, stage_of(1), unsupervised).backward == 0);
}

TEST_CASE("planned memory is within a tenth of what the stages' accounts have seen, component by component") {
  install_memory_accounting();
  for (const Case& one : every_case()) {
    INFO(one.name);
    check_memory(small_model(StorageFormat::q8_0, true), one.settings);
  }
  check_memory(small_model(StorageFormat::q8_0, true), {}, micro_batch({300, 140}, 3, 5));
}

TEST_CASE("planned memory knows how the model is stored and in which type it computes") {
  install_memory_accounting();
  for (const bool tied : {true, false}) {
    for (const StorageFormat format : {StorageFormat::f32, StorageFormat::bf16, StorageFormat::q4_1}) {
      for (const ComputeType compute : {ComputeType::fp32, ComputeType::bf16}) {
        INFO((tied ? "tied, " : "untied, ")
             << to_string(format) << (compute == ComputeType::fp32 ? ", fp32" : ", bf16"));
        TrainingSettings settings;
        settings.compute = compute;
        check_memory(small_model(format, tied), settings);
        settings.recompute = true;
        settings.loss.alpha = 0.5;
        check_memory(small_model(format, tied), settings);
      }
    }
  }
}

TEST_CASE("what stands between stages is bounded by windows, depth and the buffers' bytes") {
  RunBuffers run;  // 4 micro-batches a window, a checkpoint each window, depth 4
  const auto stage = [](std::uint64_t k) { return PlannedStage{StageIndex{k}, 3, {0, 1}}; };
  CHECK(entries_held(run, stage(0), 1000).outputs == 12);  // the scheduler's lead of three windows
  CHECK(entries_held(run, stage(1), 1000).outputs == 9);   // a window, the depth and the one being made
  CHECK(entries_held(run, stage(2), 1000).outputs == 1);
  CHECK(entries_held(run, stage(2), 1000).inputs == 0);
  run.apart = true;
  CHECK(entries_held(run, stage(2), 1000).inputs == 8);
  CHECK(entries_held(run, stage(0), 1000).inputs == 0);
  run.source_embeds = true;
  CHECK(entries_held(run, stage(0), 1000).inputs == 8);
  run.apart = false;
  CHECK(entries_held(run, stage(0), 1000).inputs == 9);  // one more is made, and waits for credit
  CHECK(entries_held(run, stage(1), 1000).inputs == 0);
  run.source_embeds = false;
  run.apart = true;
  run.bytes_max = 3000;
  CHECK(entries_held(run, stage(0), 1000).outputs == 4);
  CHECK(entries_held(run, stage(2), 1000).inputs == 3);
  run.bytes_max = 1 << 20;
  run.calibration_micro_batches = 64;
  CHECK(entries_held_in_calibration(run, stage(1), 1000).outputs == 65);
  CHECK(entries_held_in_calibration(run, stage(2), 1000).outputs == 1);
}

TEST_CASE("a base format that the model's rows do not fit is refused") {
  ModelSizes sizes = sizes_of(*small_model(StorageFormat::f32, true));
  sizes.layers[0].projections[0].columns = 100;
  TrainingSettings settings;
  settings.base = BaseFormat::q4_1;
  CHECK_THROWS_WITH(stage_memory(sizes, settings, stage_of(0), {}), Catch::Contains("rows of 100 values"));
}

}  // namespace zerolock::test
