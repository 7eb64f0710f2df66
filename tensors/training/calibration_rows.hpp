#pragma once
/// Hidden states kept until the targets of their calibration are known.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace zerolock {

/// The first rows_max rows that it is given, in order; those beyond are left out. fp32, or fp64 for fp64
/// rows.
class CalibrationRows {
 public:
  explicit CalibrationRows(std::int64_t rows_max) : rows_max_(rows_max) {}

  /// rows [n, width], copied.
  void add(const at::Tensor& rows);
  /// All kept rows [count, width], a new tensor; undefined if there are none.
  [[nodiscard]] at::Tensor all() const;
  [[nodiscard]] std::int64_t count() const { return count_; }
  void clear();

 private:
  std::int64_t rows_max_;
  std::int64_t count_ = 0;
  std::vector<at::Tensor> blocks_;
};

}  // namespace zerolock
