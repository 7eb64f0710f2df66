/// The order of training: every example once an epoch, the same everywhere, whatever is asked first.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "data/batch_plan.hpp"
#include "data/embedded_batches.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using Catch::Matchers::Contains;

/// Example i has i % 5 + 2 tokens; its first token names it, and the tokens from the second on are
/// supervised.
std::shared_ptr<const Dataset> numbered(std::size_t count) {
  auto data = std::make_shared<Dataset>();
  for (std::size_t i = 0; i < count; ++i) {
    Example example;
    example.tokens.assign(i % 5 + 2, static_cast<TokenId>(i));
    example.supervised = {{1, example.tokens.size()}};
    data->examples.push_back(std::move(example));
  }
  return data;
}

std::vector<std::int64_t> ids_of(const Entry& entry) {
  const auto* begin = entry.payload.data_ptr<std::int64_t>();
  return {begin, begin + entry.payload.numel()};
}

/// Names of the sequences of an entry, in order.
std::vector<std::int64_t> sequences_of(const Entry& entry) {
  const auto ids = ids_of(entry);
  std::vector<std::int64_t> names;
  for (std::int64_t s = 0; s < entry.layout->sequences(); ++s) {
    names.push_back(
        ids[static_cast<std::size_t>(entry.layout->sequence_offsets[static_cast<std::size_t>(s)])]);
  }
  return names;
}

std::vector<BatchPosition> positions_of(const MicroBatchProvider& plan) {
  std::vector<BatchPosition> positions;
  for (std::uint64_t w = 1; w <= plan.last_window().value; ++w) {
    for (std::uint64_t m = 0; m < plan.micro_batches(WindowIndex{w}); ++m)
      positions.push_back({WindowIndex{w}, m});
  }
  return positions;
}

TEST_CASE("Every example is trained once an epoch", "[batch_plan][property]") {
  for (const std::size_t count : {1, 2, 7, 8, 31, 32, 33, 100}) {
    for (const std::uint64_t batch : {1, 3, 8}) {
      for (const std::uint64_t accumulate : {1, 4}) {
        const auto plan =
            make_batch_plan(numbered(count), {.batch = batch, .accumulate = accumulate, .epochs = 3});
        std::map<std::int64_t, int> seen;
        std::uint64_t in_epoch = 0;
        for (const BatchPosition& position : positions_of(*plan)) {
          const Entry entry = plan->make(position);
          REQUIRE(entry.position == position);
          REQUIRE(entry.producer.value == 0);
          REQUIRE(entry.layout->sequences() <= static_cast<std::int64_t>(batch));
          for (const std::int64_t name : sequences_of(entry)) {
            // Nobody is seen again before all have been seen.
            REQUIRE(seen[name]++ == static_cast<int>(in_epoch / count));
            ++in_epoch;
          }
        }
        REQUIRE(in_epoch == 3 * count);
        const std::uint64_t window = batch * accumulate;
        REQUIRE(plan->last_window().value == 3 * ((count + window - 1) / window));
      }
    }
  }
}

TEST_CASE("Windows are full but for the last of an epoch", "[batch_plan]") {
  const auto plan = make_batch_plan(numbered(21), {.batch = 3, .accumulate = 2, .epochs = 2});
  // Windows of 6, 6, 6 and 3 examples, twice.
  REQUIRE(plan->last_window().value == 8);
  for (const std::uint64_t w : {1, 2, 3, 5, 6, 7}) CHECK(plan->micro_batches(WindowIndex{w}) == 2);
  for (const std::uint64_t w : {4, 8}) CHECK(plan->micro_batches(WindowIndex{w}) == 1);
  const auto ragged = make_batch_plan(numbered(22), {.batch = 3, .accumulate = 2});
  CHECK(ragged->micro_batches(WindowIndex{4}) == 2);
  CHECK(ragged->make({WindowIndex{4}, 0}).layout->sequences() == 3);
  CHECK(ragged->make({WindowIndex{4}, 1}).layout->sequences() == 1);
}

TEST_CASE("Window 0 holds the first rows of the first epoch, for calibration", "[batch_plan]") {
  const BatchPlanOptions without{.batch = 3, .accumulate = 2, .seed = 7};
  CHECK(make_batch_plan(numbered(21), without)->micro_batches(WindowIndex{0}) == 0);
  for (const std::uint64_t rows : {1, 3, 7, 21, 100}) {
    BatchPlanOptions options = without;
    options.calibration_rows = rows;
    const auto plan = make_batch_plan(numbered(21), options);
    const std::uint64_t kept = std::min<std::uint64_t>(rows, 21);
    REQUIRE(plan->micro_batches(WindowIndex{0}) == (kept + 2) / 3);
    std::vector<std::int64_t> seen;
    for (std::uint64_t m = 0; m < plan->micro_batches(WindowIndex{0}); ++m) {
      const Entry entry = plan->make({WindowIndex{0}, m});
      CHECK(entry.position == BatchPosition{WindowIndex{0}, m});
      for (const std::int64_t name : sequences_of(entry)) seen.push_back(name);
    }
    std::vector<std::int64_t> expected;
    const auto training = make_batch_plan(numbered(21), without);
    for (const BatchPosition& position : positions_of(*training)) {
      for (const std::int64_t name : sequences_of(training->make(position))) expected.push_back(name);
    }
    expected.resize(kept);
    CHECK(seen == expected);
    CHECK(plan->last_window() == training->last_window());  // training is as it was
    CHECK(ids_of(plan->make({WindowIndex{1}, 1})) == ids_of(training->make({WindowIndex{1}, 1})));
  }
}

TEST_CASE("A number of windows goes round the data as often as needed", "[batch_plan]") {
  const auto plan =
      make_batch_plan(numbered(10), {.batch = 2, .accumulate = 2, .epochs = 0, .windows = 7, .seed = 5});
  REQUIRE(plan->last_window().value == 7);
  const auto epochs = make_batch_plan(numbered(10), {.batch = 2, .accumulate = 2, .epochs = 3, .seed = 5});
  for (const BatchPosition& position : positions_of(*plan)) {
    CHECK(ids_of(plan->make(position)) == ids_of(epochs->make(position)));
  }
}

TEST_CASE("The same position gives the same bits in every plan, order of calls and thread",
          "[batch_plan][property]") {
  const auto data = numbered(50);
  const BatchPlanOptions options{.batch = 4, .accumulate = 3, .epochs = 4, .seed = 99};
  const auto plan = make_batch_plan(data, options);
  const auto positions = positions_of(*plan);
  std::vector<std::vector<std::int64_t>> expected;
  for (const BatchPosition& position : positions) expected.push_back(ids_of(plan->make(position)));

  const auto other = make_batch_plan(numbered(50), options);
  for (std::size_t i = positions.size(); i-- > 0;) REQUIRE(ids_of(other->make(positions[i])) == expected[i]);

  std::vector<std::thread> threads;
  std::vector<std::size_t> wrong(4, 0);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t step = 0; step < 4 * positions.size(); ++step) {
        const std::size_t i = (step * (2 * t + 7) + t) % positions.size();
        wrong[t] += ids_of(other->make(positions[i])) == expected[i] ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::size_t>(4, 0));
}

TEST_CASE("Seeds and epochs give different orders, and a known one on every machine", "[batch_plan]") {
  // From the same formulas written in Python.
  CHECK(epoch_order(10, 0, 0) == std::vector<std::uint64_t>{0, 1, 7, 2, 5, 4, 9, 3, 8, 6});
  CHECK(epoch_order(10, 1234, 2) == std::vector<std::uint64_t>{4, 8, 9, 6, 0, 3, 2, 5, 1, 7});
  CHECK(epoch_order(1, 3, 4) == std::vector<std::uint64_t>{0});
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) orders.insert(epoch_order(30, seed, epoch));
  }
  CHECK(orders.size() == 400);
  auto sorted = epoch_order(1000, 7, 1);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint64_t> all(1000);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  CHECK(sorted == all);
}

TEST_CASE("Orders are evenly spread", "[batch_plan][property]") {
  // Each of 6 examples comes to each of 6 places in 6000 epochs about 1000 times (standard deviation 29).
  std::vector<std::vector<int>> counts(6, std::vector<int>(6, 0));
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
    const auto order = epoch_order(6, 42, epoch);
    for (std::size_t place = 0; place < 6; ++place) ++counts[order[place]][place];
  }
  for (const auto& row : counts) {
    for (const int count : row) CHECK(std::abs(count - 1000) < 150);
  }
}

TEST_CASE("Without shuffling every epoch has the order of the file", "[batch_plan]") {
  const auto plan =
      make_batch_plan(numbered(5), {.batch = 2, .accumulate = 2, .epochs = 2, .shuffle = false});
  std::vector<std::int64_t> names;
  for (const BatchPosition& position : positions_of(*plan)) {
    for (const std::int64_t name : sequences_of(plan->make(position))) names.push_back(name);
  }
  CHECK(names == std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
}

TEST_CASE("Numbers out of range are refused", "[batch_plan]") {
  const auto data = numbered(3);
  CHECK_THROWS_WITH(make_batch_plan(nullptr, {}), Contains("no example"));
  CHECK_THROWS_WITH(make_batch_plan(std::make_shared<Dataset>(), {}), Contains("no example"));
  CHECK_THROWS_WITH(make_batch_plan(data, {.batch = 0}), Contains("batch"));
  CHECK_THROWS_WITH(make_batch_plan(data, {.accumulate = 0}), Contains("accumulate"));
  CHECK_THROWS_WITH(make_batch_plan(data, {.epochs = 0}), Contains("epochs"));
  CHECK_THROWS_WITH(make_batch_plan(data, {.batch = 1ULL << 40, .accumulate = 1ULL << 40}),
                    Contains("too large"));
  CHECK_THROWS_WITH(make_batch_plan(data, {.batch = 1, .accumulate = 1, .epochs = ~0ULL}),
                    Contains("too large"));
  const auto plan = make_batch_plan(data, {.batch = 1ULL << 62, .accumulate = 1});
  CHECK(plan->make({WindowIndex{1}, 0}).layout->sequences() == 3);
  CHECK_THROWS_AS(plan->make({WindowIndex{0}, 0}), std::logic_error);
  CHECK_THROWS_AS(plan->make({WindowIndex{2}, 0}), std::logic_error);
  CHECK_THROWS_AS(plan->make({WindowIndex{1}, 1}), std::logic_error);
}

TEST_CASE("Embedded batches are those of the plan with the embedding's rows for token ids", "[batch_plan]") {
  const std::filesystem::path fixtures = ZEROLOCK_TEST_FIXTURES;
  const auto model = ModelFiles::open(fixtures / "models/tiny-llama");
  const at::Tensor rows = model->tensor("model.embed_tokens.weight").expand();
  const auto plan = make_batch_plan(numbered(12), {.batch = 2, .accumulate = 2, .calibration_rows = 3});
  const auto embedded = make_embedded_batches(plan, model, at::kFloat);
  CHECK(embedded->last_window() == plan->last_window());
  for (WindowIndex window{0}; window <= plan->last_window(); window = window.next()) {
    REQUIRE(embedded->micro_batches(window) == plan->micro_batches(window));
    for (std::uint64_t i = 0; i < plan->micro_batches(window); ++i) {
      const Entry ids = plan->make({window, i});
      const Entry entry = embedded->make({window, i});
      CHECK(entry.position == ids.position);
      CHECK(entry.producer == ids.producer);
      CHECK(entry.layout->targets == ids.layout->targets);
      CHECK(entry.layout->sequence_offsets == ids.layout->sequence_offsets);
      CHECK(entry.payload.equal(rows.index_select(0, ids.payload)));
      CHECK(entry.payload.equal(embedded->make({window, i}).payload));
    }
  }
  CHECK(make_embedded_batches(plan, model, at::kBFloat16)->make({WindowIndex{1}, 0}).payload.scalar_type() ==
        at::kBFloat16);
}

TEST_CASE("Omega holds the rows before supervised tokens and never crosses a sequence", "[batch_plan]") {
  Example answer{{10, 11, 12, 13}, {{2, 4}}, 1, std::nullopt};
  Example no_prompt{{20, 21}, {{0, 2}}, 2, std::nullopt};  // nothing predicts its first token
  Example nothing{{30, 31, 32}, {}, 3, std::nullopt};
  Example two_turns{{40, 41, 42, 43, 44}, {{1, 2}, {4, 5}}, 4, std::nullopt};
  const std::vector<const Example*> all{&answer, &no_prompt, &nothing, &two_turns};
  const PackedExamples packed = pack_examples(all);
  CHECK(packed.layout->sequence_offsets == std::vector<std::int64_t>{0, 4, 6, 9, 14});
  CHECK(packed.layout->supervised_rows == std::vector<std::int64_t>{1, 2, 4, 9, 12});
  CHECK(packed.layout->targets == std::vector<std::int64_t>{12, 13, 21, 41, 44});
  CHECK(packed.token_ids.scalar_type() == at::kLong);
  CHECK(packed.token_ids.equal(
      at::tensor({10, 11, 12, 13, 20, 21, 30, 31, 32, 40, 41, 42, 43, 44}, at::kLong)));

  const std::vector<const Example*> unlabelled{&nothing};
  CHECK(pack_examples(unlabelled).layout->supervised_rows.empty());
}

}  // namespace
}  // namespace zerolock
