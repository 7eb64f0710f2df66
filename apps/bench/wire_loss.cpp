#include "apps/bench/wire_loss.hpp"

#include <memory>

namespace zerolock {

WireLoss wire_loss(const at::Tensor& rows, WireType type) {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, rows.size(0)};
  Entry sent;
  sent.layout = layout;
  sent.payload = rows;
  const Frame frame = entry_frame(1, sent, type);
  const EntryLimits limits{rows.size(0), 1, rows.size(1), 0, at::kFloat};
  const at::Tensor arrived = read_entry(frame, limits).entry.payload.to(at::kDouble);
  const at::Tensor exact = rows.to(at::kDouble);
  const at::Tensor norms = exact.norm(2, 1);
  // A row of zeros travels exactly.
  const at::Tensor errors = (arrived - exact).norm(2, 1) / at::where(norms > 0, norms, at::ones_like(norms));
  WireLoss loss;
  loss.bytes_per_row = static_cast<double>(frame.payload.size()) / static_cast<double>(rows.size(0));
  loss.largest_error = errors.max().item<double>();
  loss.mean_error = errors.mean().item<double>();
  return loss;
}

}  // namespace zerolock
