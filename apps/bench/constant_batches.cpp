#include "apps/bench/constant_batches.hpp"

#include <ATen/ATen.h>

#include <utility>

namespace zerolock {

namespace {

class ConstantBatches final : public MicroBatchProvider {
 public:
  ConstantBatches(std::uint64_t windows, std::uint64_t micro_batches, std::uint64_t sequences,
                  std::int64_t rows_each)
      : windows_(windows), micro_batches_(micro_batches) {
    auto layout = std::make_shared<MicroBatchLayout>();
    std::int64_t rows = 0;
    for (std::uint64_t sequence = 0; sequence < sequences; ++sequence) {
      rows += rows_each;
      layout->sequence_offsets.push_back(rows);
      layout->supervised_rows.push_back(rows - 2);
      layout->targets.push_back(0);
    }
    layout_ = std::move(layout);
    token_ids_ = at::zeros({rows}, at::kLong);
  }

  [[nodiscard]] WindowIndex last_window() const override { return WindowIndex{windows_}; }
  [[nodiscard]] std::uint64_t micro_batches(WindowIndex) const override { return micro_batches_; }
  [[nodiscard]] Entry make(const BatchPosition& position) const override {
    return Entry{position, Incarnation{0}, layout_, token_ids_};
  }

 private:
  std::uint64_t windows_;
  std::uint64_t micro_batches_;
  std::shared_ptr<const MicroBatchLayout> layout_;
  at::Tensor token_ids_;
};

}  // namespace

std::shared_ptr<const MicroBatchProvider> make_constant_batches(std::uint64_t windows,
                                                                std::uint64_t micro_batches,
                                                                std::uint64_t sequences,
                                                                std::int64_t rows_each) {
  return std::make_shared<ConstantBatches>(windows, micro_batches, sequences, rows_each);
}

}  // namespace zerolock
