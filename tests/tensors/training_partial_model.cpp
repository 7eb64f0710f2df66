/// A stage that fetched its share of a model computes what it would with the whole.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/tensors/partial_model_support.hpp"
#include "tests/tensors/training_support.hpp"

namespace zerolock::test {

TEST_CASE("a stage trains on its parts of the model as it does on the whole, bit for bit") {
  TrainingSettings settings;
  settings.loss.alpha = 0.5;
  settings.loss.first_chunk_consistency = true;
  const MicroBatch batch = reference_batches().front();
  const BatchPosition position{WindowIndex{1}, 0};
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    SequentialStages whole(served.files, served.partition, settings);
    const auto reports = whole.train_window({batch}, WindowIndex{1}).front();
    at::Tensor payload = batch.ids;
    for (std::size_t stage = 0; stage < 3; ++stage) {
      INFO("stage " << stage);
      const TemporaryFolder cache;
      PartialModel partial(cache.path(), served.stage(stage));
      fetch(served.parts, partial);
      MemoryAccount account;
      const auto backend =
          make_chunk_backend(partial.open(), StageIndex{stage}, served.partition, settings, account);
      CHECK(backend->begin({position, Incarnation{1}, batch.layout, payload}).equal(whole.hidden()[stage]));
      CHECK(backend->finish(position).loss == reports[stage].loss);
      CHECK(backend->step(WindowIndex{1}).gradient_norm == whole.steps()[stage].gradient_norm);
      const StageState expected = whole.backend(stage).state();
      const StageState state = backend->state();
      CHECK(state.tensors.size() == expected.tensors.size());
      for (const auto& [name, tensor] : expected.tensors) CHECK(state.tensors.at(name).equal(tensor));
      payload = whole.hidden()[stage];
    }
  }
}

TEST_CASE("a first stage whose source embeds needs no embedding, and trains the same bits") {
  TrainingSettings settings;
  settings.loss.alpha = 0.5;
  settings.loss.first_chunk_consistency = true;
  const MicroBatch batch = reference_batches().front();
  const BatchPosition position{WindowIndex{1}, 0};
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    SequentialStages whole(served.files, served.partition, settings);
    const auto reports = whole.train_window({batch}, WindowIndex{1}).front();
    const TemporaryFolder cache;
    PartialModel partial(cache.path(), served.parts.manifest(served.partition[0], false));
    fetch(served.parts, partial);
    const auto files = partial.open();
    CHECK(files->contains("model.embed_tokens.weight") == files->config().tied_embeddings);
    TrainingSettings without = settings;
    without.embed_at = EmbedAt::source;
    MemoryAccount account;
    const auto backend = make_chunk_backend(files, StageIndex{0}, served.partition, without, account);
    const at::Tensor embedded =
        embed(served.files->tensor("model.embed_tokens.weight"), batch.ids, at::kFloat);
    CHECK(backend->begin({position, Incarnation{0}, batch.layout, embedded}).equal(whole.hidden()[0]));
    CHECK(backend->finish(position).loss == reports[0].loss);
    CHECK(backend->step(WindowIndex{1}).gradient_norm == whole.steps()[0].gradient_norm);
    for (const auto& [name, tensor] : whole.backend(0).state().tensors) {
      CHECK(backend->state().tensors.at(name).equal(tensor));
    }
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
