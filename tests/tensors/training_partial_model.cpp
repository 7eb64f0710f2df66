/// A stage that fetched its share of a model computes what it would with the whole.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/tensors/partial_model_support.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {

namespace {

const BatchPosition position{WindowIndex{1}, 0};

TrainingSettings settings_of_all() {
  TrainingSettings settings;
  settings.loss.alpha = 0.5;
  settings.loss.first_chunk_consistency = true;
  return settings;
}

/// One window of one micro-batch, trained by stages that have the whole model.
struct WholeModel {
  explicit WholeModel(const ServedModel& served) : stages(served.files, served.partition, settings_of_all()) {
    reports = stages.train_window({batch}, WindowIndex{1}).front();
  }

  /// The stage ends with the same bits, from `payload`.
  void check_same(StageBackend& backend, std::size_t stage, const at::Tensor& payload) {
    CHECK(backend.begin({position, Incarnation{1}, batch.layout, payload}).equal(stages.hidden()[stage]));
    CHECK(backend.finish(position).loss == reports[stage].loss);
    CHECK(backend.step(WindowIndex{1}).gradient_norm == stages.steps()[stage].gradient_norm);
    const StageState expected = stages.backend(stage).state();
    const StageState state = backend.state();
    CHECK(state.tensors.size() == expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) CHECK(state.tensors.at(name).equal(tensor));
  }

  MicroBatch batch = reference_batches().front();
  SequentialStages stages;
  std::vector<LossReport> reports;
};

}  // namespace

TEST_CASE("a stage trains on its parts of the model as it does on the whole, bit for bit") {
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    WholeModel whole(served);
    at::Tensor payload = whole.batch.ids;
    for (std::size_t stage = 0; stage < 3; ++stage) {
      INFO("stage " << stage);
      const TemporaryFolder cache;
      PartialModel partial(cache.path(), served.stage(stage));
      fetch(served.parts, partial);
      MemoryAccount account;
      const auto backend =
          make_chunk_backend(partial.open(), StageIndex{stage}, served.partition, settings_of_all(), account);
      whole.check_same(*backend, stage, payload);
      payload = whole.stages.hidden()[stage];
    }
  }
}

TEST_CASE("a first stage whose source embeds needs no embedding, and trains the same bits") {
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    WholeModel whole(served);
    const TemporaryFolder cache;
    PartialModel partial(cache.path(), served.parts.manifest(served.partition[0], false));
    fetch(served.parts, partial);
    const auto files = partial.open();
    CHECK(files->contains("model.embed_tokens.weight") == files->config().tied_embeddings);
    TrainingSettings without = settings_of_all();
    without.embed_at = EmbedAt::source;
    MemoryAccount account;
    const auto backend = make_chunk_backend(files, StageIndex{0}, served.partition, without, account);
    const at::Tensor embedded =
        embed(served.files->tensor("model.embed_tokens.weight"), whole.batch.ids, at::kFloat);
    whole.check_same(*backend, 0, embedded);
  }
}

TEST_CASE("a stage does not open with another stage's parts") {
  const ServedModel served("folder");
  const TemporaryFolder cache;
  PartialModel partial(cache.path(), served.stage(1));
  fetch(served.parts, partial);
  for (const std::size_t stage : {0U, 2U}) {
    MemoryAccount account;
    CHECK_THROWS_WITH(make_chunk_backend(partial.open(), StageIndex{stage}, served.partition, {}, account),
                      Catch::Contains("model.layers.") && Catch::Contains("was not fetched"));
  }
}

}  // namespace zerolock::test
