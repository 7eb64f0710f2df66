#include "tensors/training/calibration_rows.hpp"

#include <algorithm>

#include "tensors/training/readout_head.hpp"

namespace zerolock {

void CalibrationRows::add(const at::Tensor& rows) {
  const std::int64_t taken = std::min(rows.size(0), rows_max_ - count_);
  if (taken <= 0) return;
  blocks_.push_back(rows.narrow(0, 0, taken).to(wide_type(rows.scalar_type())).clone());
  count_ += taken;
}

at::Tensor CalibrationRows::all() const {
  return blocks_.empty() ? at::Tensor() : at::cat(blocks_);
}

void CalibrationRows::clear() {
  blocks_.clear();
  count_ = 0;
}

}  // namespace zerolock
