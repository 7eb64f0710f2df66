#include "apps/bench/filled_rows.hpp"

#include <ATen/ATen.h>

#include <random>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

class FilledRows final : public MicroBatchProvider {
 public:
  explicit FilledRows(const FilledRowsSetup& setup) : setup_(setup) {
    ZEROLOCK_INVARIANT(setup.row_tokens >= 2 && setup.vocabulary > 0, "a row has a prompt and an answer");
  }

  [[nodiscard]] WindowIndex last_window() const override { return WindowIndex{setup_.windows}; }
  [[nodiscard]] std::uint64_t micro_batches(WindowIndex window) const override {
    return window.value == 0 ? 0 : setup_.micro_batches;
  }

  [[nodiscard]] Entry make(const BatchPosition& position) const override {
    std::mt19937_64 engine(setup_.seed + position.window.value * setup_.micro_batches + position.micro_batch);
    auto layout = std::make_shared<MicroBatchLayout>();
    std::vector<std::int64_t> ids;
    for (std::uint64_t row = 0; row < setup_.batch; ++row) {
      for (std::int64_t token = 0; token < setup_.row_tokens; ++token) {
        ids.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(setup_.vocabulary)));
      }
      const auto end = static_cast<std::int64_t>(ids.size());
      layout->sequence_offsets.push_back(end);
      layout->supervised_rows.push_back(end - 2);
      layout->targets.push_back(ids.back());
    }
    Entry entry;
    entry.position = position;
    entry.layout = std::move(layout);
    entry.payload = at::tensor(ids, at::kLong);
    return entry;
  }

 private:
  FilledRowsSetup setup_;
};

}  // namespace

std::shared_ptr<const MicroBatchProvider> make_filled_rows(const FilledRowsSetup& setup) {
  return std::make_shared<FilledRows>(setup);
}

void refuse_heads_of_rows(const TrainOptions& options, const std::string& measurement) {
  for (const HeadKind kind : {options.inner_head.kind, options.last_head.kind}) {
    if (kind == HeadKind::calibrated) {
      throw InputError("--head", "a calibrated readout is fitted to rows, and " + measurement + " has none");
    }
    if (kind == HeadKind::restricted) {
      throw InputError("--head",
                       "a restricted readout is over the labels of rows, and " + measurement + " has none");
    }
  }
}

}  // namespace zerolock
