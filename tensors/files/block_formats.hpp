#pragma once
/// The arithmetic of the storage formats: expansion to float32 and quantisation from it. Block layouts are
/// GGUF's (ggml-common.h): within a block of 32 the low nibbles hold elements 0..15, the high nibbles
/// elements 16..31.

#include <cstddef>
#include <cstdint>

#include "tensors/files/stored_tensor.hpp"

namespace zerolock {

/// Expands `elements` values, a whole number of blocks, into `destination`. The source needs no alignment.
/// The same bits on every CPU: products of a half-precision scale and a small integer are exact in float32,
/// so that fused and separate multiply-adds agree.
void expand_blocks(StorageFormat format, const std::byte* source, std::int64_t elements, float* destination);

/// True for the formats that quantise_blocks can write: f32, bf16, q8_0, q4_1.
bool can_quantise_to(StorageFormat format);

/// Writes `elements` values, a whole number of blocks, in the given format, rounding to the nearest
/// representable value: the error is at most half a step, which is (largest magnitude) / 127 for q8_0 and
/// (max - min) / 15 for q4_1 (plus the rounding of the scales to half precision), and 2^-8 relative for bf16.
/// Throws std::logic_error for other formats. Values whose scale exceeds half precision's 65504 become
/// infinite.
void quantise_blocks(StorageFormat format, const float* source, std::int64_t elements,
                     std::byte* destination);

}  // namespace zerolock
