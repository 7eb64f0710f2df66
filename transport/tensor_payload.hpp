#pragma once
/// Tensors as payloads and back, without a copy.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "tensors/base/memory_account.hpp"
#include "transport/payload.hpp"

namespace zerolock {

/// The bytes of a contiguous CPU tensor; the payload keeps it alive.
Payload payload_of(const at::Tensor& tensor);

/// A tensor over a received payload's own memory. Throws WireError unless the bytes are exactly those of the
/// shape and type.
at::Tensor tensor_over(const Payload& payload, at::IntArrayRef shape, at::ScalarType type);

/// Memory from LibTorch's allocator, charged to the account's buffers. The account must outlive the payloads.
PayloadAllocator accounted_payloads(MemoryAccount& account);

}  // namespace zerolock
