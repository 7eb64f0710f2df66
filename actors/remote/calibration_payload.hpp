#pragma once
/// The targets of a calibration as bytes beside a control message.

#include "actors/protocol.hpp"
#include "actors/remote/control_channel.hpp"
#include "tensors/base/error.hpp"
#include "transport/tensor_payload.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {

/// `Shape`: control::TargetsMade or control::TargetsGiven.
template <class Shape>
Shape shape_of(const CalibrationTargets& targets) {
  return {targets.rows.size(0), targets.rows.size(1), targets.rows.scalar_type() == at::kDouble};
}

inline at::Tensor payload_of_targets(const CalibrationTargets& targets) {
  const at::Tensor rows = targets.rows.contiguous();
  return at::from_blob(
      rows.data_ptr(), {static_cast<std::int64_t>(rows.nbytes())}, [rows](void*) {}, at::kByte);
}

/// Throws WireError if bytes and shape do not fit each other.
template <class Shape>
CalibrationTargets targets_from(const Shape& shape, const at::Tensor& bytes) {
  const at::ScalarType type = shape.double_precision ? at::kDouble : at::kFloat;
  const auto item = static_cast<std::int64_t>(at::elementSize(type));
  const bool fits = shape.rows > 0 && shape.width > 0 && bytes.numel() % item == 0 &&
                    bytes.numel() / item / shape.rows == shape.width &&
                    bytes.numel() / item % shape.rows == 0;
  if (!fits) throw WireError("calibration targets do not have the size that they state");
  at::Tensor rows = at::empty({shape.rows, shape.width}, type);
  std::memcpy(rows.data_ptr(), bytes.contiguous().data_ptr(), rows.nbytes());
  return {rows};
}

}  // namespace zerolock
