#include "tensors/training/joint_micro_batches.hpp"

namespace zerolock {

void JointMicroBatches::add(const Entry& entry) {
  const MicroBatchLayout& layout = *entry.layout;
  const std::int64_t first = parts_.rows.back();
  positions_.push_back(entry.position);
  for (std::size_t i = 1; i < layout.sequence_offsets.size(); ++i) {
    sequence_offsets_.push_back(first + layout.sequence_offsets[i]);
  }
  for (const std::int64_t row : layout.supervised_rows) supervised_rows_.push_back(first + row);
  parts_.rows.push_back(first + layout.rows());
  parts_.given_rows.push_back(static_cast<std::int64_t>(supervised_rows_.size()));
}

at::Tensor JointMicroBatches::rows_of(std::size_t number, const at::Tensor& all) const {
  return all.narrow(0, parts_.rows[number], parts_.rows[number + 1] - parts_.rows[number]);
}

}  // namespace zerolock
