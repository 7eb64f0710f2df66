#pragma once
/// What a hidden state loses on the wire.

#include <ATen/ATen.h>

#include <cstdint>

#include "transport/entry_frame.hpp"

namespace zerolock {

/// Of rows, each with the error |arrived - sent| / |sent| in Euclidean norms.
struct WireLoss {
  double bytes_per_row = 0;  // of payload
  double largest_error = 0;
  double mean_error = 0;
};

/// Frames rows [rows, width] and reads them back, both as a boundary does. Compute type fp32.
WireLoss wire_loss(const at::Tensor& rows, WireType type);

}  // namespace zerolock
