#include "data/batch_plan.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the value at each
/// counter is a bijective mix of key + counter * golden ratio. Written out here because the standard
/// library's distributions differ between implementations.
class CounterGenerator {
 public:
  CounterGenerator(std::uint64_t seed, std::uint64_t stream)
      : state_(mix(mix(seed + kGolden) + stream * kGolden)) {}

  /// Uniform in 0..bound-1, without bias: draws that fall into the incomplete last stretch are thrown away.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t first_fair = (0 - bound) % bound;  // 2^64 mod bound
    while (true) {
      const std::uint64_t drawn = next();
      if (drawn >= first_fair) return drawn % bound;
    }
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  std::uint64_t next() { return mix(state_ += kGolden); }

  std::uint64_t state_;
};

std::uint64_t divided_up(std::uint64_t count, std::uint64_t by) {
  return count / by + (count % by != 0 ? 1 : 0);
}

/// a * b, or InputError naming what grew too large.
std::uint64_t product(std::uint64_t a, std::uint64_t b, const char* what) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a)
    throw InputError(what, "the number is too large");
  return a * b;
}

class BatchPlan final : public MicroBatchProvider {
 public:
  BatchPlan(std::shared_ptr<const Dataset> dataset, const BatchPlanOptions& options)
      : dataset_(std::move(dataset)), options_(options) {
    if (!dataset_ || dataset_->examples.empty()) throw InputError("data", "there is no example to train on");
    if (options_.batch == 0) throw InputError("batch", "is 0, must be 1 or more sequences");
    if (options_.accumulate == 0) throw InputError("accumulate", "is 0, must be 1 or more micro-batches");
    if (options_.epochs == 0 && options_.windows == 0) throw InputError("epochs", "is 0, must be 1 or more");
    window_examples_ = product(options_.batch, options_.accumulate, "batch times accumulate");
    epoch_windows_ = divided_up(count(), window_examples_);
    windows_ = options_.windows != 0 ? options_.windows : product(options_.epochs, epoch_windows_, "epochs");
  }

  [[nodiscard]] WindowIndex last_window() const override { return WindowIndex{windows_}; }

  [[nodiscard]] std::uint64_t micro_batches(WindowIndex window) const override {
    const Stretch stretch = examples_of(window);
    return divided_up(stretch.end - stretch.begin, options_.batch);
  }

  [[nodiscard]] Entry make(const BatchPosition& position) const override {
    ZEROLOCK_INVARIANT(position.micro_batch < micro_batches(position.window),
                       to_string(position) + " is in the plan");
    const Stretch window = examples_of(position.window);
    const std::uint64_t begin = window.begin + position.micro_batch * options_.batch;
    const std::uint64_t end = std::min(window.end, begin + std::min(options_.batch, window.end - begin));
    const std::shared_ptr<const Order> order = order_of(window.epoch);
    std::vector<const Example*> examples;
    examples.reserve(end - begin);
    for (std::uint64_t i = begin; i < end; ++i) {
      examples.push_back(&dataset_->examples[order->empty() ? i : (*order)[i]]);
    }
    PackedExamples packed = pack_examples(examples);
    Entry entry;
    entry.position = position;
    entry.layout = std::move(packed.layout);
    entry.payload = std::move(packed.token_ids);
    return entry;
  }

 private:
  using Order = std::vector<std::uint64_t>;

  /// Places begin..end-1 of an epoch's order.
  struct Stretch {
    std::uint64_t epoch = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  [[nodiscard]] std::uint64_t count() const { return dataset_->examples.size(); }

  [[nodiscard]] Stretch examples_of(WindowIndex window) const {
    ZEROLOCK_INVARIANT(window.value <= windows_,
                       "window " + std::to_string(window.value) + " is in the plan");
    if (window.value == 0) return {0, 0, std::min(options_.calibration_rows, count())};
    const std::uint64_t begin = (window.value - 1) % epoch_windows_ * window_examples_;
    return {(window.value - 1) / epoch_windows_, begin, begin + std::min(window_examples_, count() - begin)};
  }

  /// The order of an epoch, made when first asked for and remembered until another epoch is; empty for the
  /// file's own.
  [[nodiscard]] std::shared_ptr<const Order> order_of(std::uint64_t epoch) const {
    const std::lock_guard lock(mutex_);
    if (!order_ || order_epoch_ != epoch) {
      order_ = std::make_shared<const Order>(options_.shuffle ? epoch_order(count(), options_.seed, epoch)
                                                              : Order{});
      order_epoch_ = epoch;
    }
    return order_;
  }

  std::shared_ptr<const Dataset> dataset_;
  BatchPlanOptions options_;
  std::uint64_t window_examples_ = 0;  // examples of a full window
  std::uint64_t epoch_windows_ = 0;    // windows of an epoch
  std::uint64_t windows_ = 0;          // windows of the run

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Order> order_;
  mutable std::uint64_t order_epoch_ = 0;
};

}  // namespace

std::vector<std::uint64_t> epoch_order(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  CounterGenerator generator(seed, epoch);
  for (std::uint64_t left = count; left > 1; --left) std::swap(order[left - 1], order[generator.below(left)]);
  return order;
}

PackedExamples pack_examples(std::span<const Example* const> examples) {
  MicroBatchLayout layout;
  std::vector<TokenId> ids;
  for (const Example* example : examples) {
    ZEROLOCK_INVARIANT(!example->tokens.empty(), "an example has at least one token");
    const std::int64_t first_row = layout.rows();
    for (const TokenSpan& span : example->supervised) {
      ZEROLOCK_INVARIANT(span.begin < span.end && span.end <= example->tokens.size(),
                         "spans lie in the example");
      for (std::size_t t = std::max<std::size_t>(span.begin, 1); t < span.end; ++t) {
        layout.supervised_rows.push_back(first_row + static_cast<std::int64_t>(t) - 1);
        layout.targets.push_back(example->tokens[t]);
      }
    }
    ids.insert(ids.end(), example->tokens.begin(), example->tokens.end());
    layout.sequence_offsets.push_back(static_cast<std::int64_t>(ids.size()));
  }
  layout.check();
  at::Tensor token_ids = at::empty({layout.rows()}, at::kLong);
  std::copy(ids.begin(), ids.end(), token_ids.data_ptr<std::int64_t>());
  return {std::make_shared<const MicroBatchLayout>(std::move(layout)), std::move(token_ids)};
}

std::shared_ptr<const MicroBatchProvider> make_batch_plan(std::shared_ptr<const Dataset> dataset,
                                                          const BatchPlanOptions& options) {
  return std::make_shared<const BatchPlan>(std::move(dataset), options);
}

}  // namespace zerolock
