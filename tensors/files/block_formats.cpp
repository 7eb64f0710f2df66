#include "tensors/files/block_formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tensors/base/error.hpp"

// The loops are compiled once for every common instruction set and picked at load time. Sanitizers intercept
// too late for the picking functions, and other compilers spell it differently: there the plain version is
// used.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define ZEROLOCK_FOR_EACH_CPU __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#pragma GCC optimize("O3")
#else
#define ZEROLOCK_FOR_EACH_CPU
#endif
// What the loops call must be compiled with the loop, for its instruction set.
#define ZEROLOCK_INLINE [[gnu::always_inline]] inline

namespace zerolock {
namespace {

using Byte = std::uint8_t;

constexpr int small_block = 32;   // elements of q4_0, q4_1, q5_0, q5_1, q8_0
constexpr int large_block = 256;  // elements of q4_k, q6_k

template <class T>
ZEROLOCK_INLINE T load(const Byte* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

/// IEEE half to single precision without a branch, so that loops over it vectorise: the exponent is moved by
/// an integer addition, subnormal halves are made normal by a subtraction, and masks choose.
ZEROLOCK_INLINE float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t shifted = magnitude << 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + (113U << 23)) - 0x1p-14F);
  const std::uint32_t is_subnormal = 0U - static_cast<std::uint32_t>(magnitude < 0x0400U);
  const std::uint32_t is_infinite_or_nan = 0U - static_cast<std::uint32_t>(magnitude >= 0x7c00U);
  const std::uint32_t normal = shifted + (112U << 23) + (is_infinite_or_nan & (112U << 23));
  return std::bit_cast<float>((is_subnormal & subnormal) | (~is_subnormal & normal) | sign);
}

/// The same for the scale of a block: alone, choices that are predicted are cheaper than masks.
ZEROLOCK_INLINE float scale_from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  std::uint32_t bits = (magnitude << 13) + ((magnitude >= 0x7c00U ? 224U : 112U) << 23);
  if (magnitude < 0x0400U) {
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>((magnitude << 13) + (113U << 23)) - 0x1p-14F);
  }
  return std::bit_cast<float>(bits | sign);
}

/// Single to half precision, to nearest, ties to even; overflow becomes infinite.
std::uint16_t to_half(float value) {
  return at::Half(value).x;
}

ZEROLOCK_FOR_EACH_CPU
void expand_f16(const Byte* __restrict source, std::int64_t elements, float* __restrict destination) {
  for (std::int64_t i = 0; i < elements; ++i) destination[i] = from_half(load<std::uint16_t>(source + 2 * i));
}

ZEROLOCK_FOR_EACH_CPU
void expand_bf16(const Byte* __restrict source, std::int64_t elements, float* __restrict destination) {
  for (std::int64_t i = 0; i < elements; ++i) {
    destination[i] = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(source + 2 * i)} << 16);
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q8_0(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 34, destination += small_block) {
    const float scale = scale_from_half(load<std::uint16_t>(source));
    const Byte* __restrict quants = source + 2;
    for (int i = 0; i < small_block; ++i) {
      destination[i] = static_cast<float>(static_cast<std::int8_t>(quants[i])) * scale;
    }
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q4_0(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 18, destination += small_block) {
    const float scale = scale_from_half(load<std::uint16_t>(source));
    const Byte* __restrict quants = source + 2;
    for (int i = 0; i < 16; ++i) destination[i] = static_cast<float>((quants[i] & 15) - 8) * scale;
    for (int i = 0; i < 16; ++i) destination[i + 16] = static_cast<float>((quants[i] >> 4) - 8) * scale;
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q4_1(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 20, destination += small_block) {
    const float scale = scale_from_half(load<std::uint16_t>(source));
    const float minimum = scale_from_half(load<std::uint16_t>(source + 2));
    const Byte* __restrict quants = source + 4;
    for (int i = 0; i < 16; ++i) destination[i] = static_cast<float>(quants[i] & 15) * scale + minimum;
    for (int i = 0; i < 16; ++i) destination[i + 16] = static_cast<float>(quants[i] >> 4) * scale + minimum;
  }
}

constexpr std::array<std::uint32_t, small_block> single_bits = [] {
  std::array<std::uint32_t, small_block> bits{};
  for (std::uint32_t i = 0; i < small_block; ++i) bits[i] = 1U << i;
  return bits;
}();

/// The values 0..31 of a five-bit block: four bits from the nibbles, the fifth from the bits of `high`.
ZEROLOCK_INLINE void unpack_five_bits(const Byte* __restrict nibbles, std::uint32_t high,
                                      std::int32_t* __restrict values) {
  for (int i = 0; i < 16; ++i) values[i] = nibbles[i] & 15;
  for (int i = 0; i < 16; ++i) values[i + 16] = nibbles[i] >> 4;
  for (int i = 0; i < small_block; ++i) values[i] += (high & single_bits[i]) != 0 ? 16 : 0;
}

ZEROLOCK_FOR_EACH_CPU
void expand_q5_0(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 22, destination += small_block) {
    const float scale = scale_from_half(load<std::uint16_t>(source));
    std::int32_t values[small_block];
    unpack_five_bits(source + 6, load<std::uint32_t>(source + 2), values);
    for (int i = 0; i < small_block; ++i) {
      destination[i] = static_cast<float>(values[i] - 16) * scale;
    }
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q5_1(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 24, destination += small_block) {
    const float scale = scale_from_half(load<std::uint16_t>(source));
    const float minimum = scale_from_half(load<std::uint16_t>(source + 2));
    std::int32_t values[small_block];
    unpack_five_bits(source + 8, load<std::uint32_t>(source + 4), values);
    for (int i = 0; i < small_block; ++i) {
      destination[i] = static_cast<float>(values[i]) * scale + minimum;
    }
  }
}

/// Scale and minimum number j = 0..7 of a q4_k block, six bits each, packed into twelve bytes.
ZEROLOCK_INLINE void unpack_scale(const Byte* packed, int j, int& scale, int& minimum) {
  if (j < 4) {
    scale = packed[j] & 63;
    minimum = packed[j + 4] & 63;
  } else {
    scale = (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
    minimum = (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q4_k(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 144) {
    const float scale_unit = scale_from_half(load<std::uint16_t>(source));
    const float minimum_unit = scale_from_half(load<std::uint16_t>(source + 2));
    const Byte* quants = source + 16;
    for (int pair = 0; pair < 4; ++pair, quants += 32, destination += 64) {
      int low_scale = 0, low_minimum = 0, high_scale = 0, high_minimum = 0;
      unpack_scale(source + 4, 2 * pair, low_scale, low_minimum);
      unpack_scale(source + 4, 2 * pair + 1, high_scale, high_minimum);
      const float scale0 = scale_unit * static_cast<float>(low_scale);
      const float scale1 = scale_unit * static_cast<float>(high_scale);
      const float minimum0 = minimum_unit * static_cast<float>(low_minimum);
      const float minimum1 = minimum_unit * static_cast<float>(high_minimum);
      for (int i = 0; i < 32; ++i) destination[i] = scale0 * static_cast<float>(quants[i] & 15) - minimum0;
      for (int i = 0; i < 32; ++i)
        destination[i + 32] = scale1 * static_cast<float>(quants[i] >> 4) - minimum1;
    }
  }
}

/// Sixteen elements of a q6_k block: four bits from `low` (already shifted), two from `high`, moved by 32.
ZEROLOCK_INLINE void expand_q6_k_run(const Byte* __restrict low, int low_shift, const Byte* __restrict high,
                                     int high_shift, float scale, float* __restrict destination) {
  for (int i = 0; i < 16; ++i) {
    const int value = ((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4);
    destination[i] = scale * static_cast<float>(value - 32);
  }
}

ZEROLOCK_FOR_EACH_CPU
void expand_q6_k(const Byte* __restrict source, std::int64_t blocks, float* __restrict destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += 210) {
    const float unit = scale_from_half(load<std::uint16_t>(source + 208));
    for (int half = 0; half < 2; ++half, destination += 128) {
      const Byte* low = source + 64 * half;
      const Byte* high = source + 128 + 32 * half;
      const Byte* scales = source + 192 + 8 * half;
      for (int run = 0; run < 8; ++run) {  // elements 16 * run .. 16 * run + 15 of this half
        const float scale = unit * static_cast<float>(static_cast<std::int8_t>(scales[run]));
        const int quarter = run / 2, offset = 16 * (run % 2);
        expand_q6_k_run(low + 32 * (quarter % 2) + offset, 4 * (quarter / 2), high + offset, 2 * quarter,
                        scale, destination + 16 * run);
      }
    }
  }
}

template <class Number>
void expand_numbers(const Byte* source, std::int64_t elements, float* destination) {
  for (std::int64_t i = 0; i < elements; ++i) {
    destination[i] = static_cast<float>(load<Number>(source + static_cast<std::int64_t>(sizeof(Number)) * i));
  }
}

// The quantisers run once, when a model is loaded, and are compiled for one instruction set only, so that a
// quantised model has the same bytes on every machine.

void quantise_bf16(const float* source, std::int64_t elements, Byte* destination) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint16_t bits = at::BFloat16(source[i]).x;
    std::memcpy(destination + 2 * i, &bits, sizeof bits);
  }
}

void quantise_q8_0(const float* source, std::int64_t blocks, Byte* destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += small_block, destination += 34) {
    float largest = 0.0F;
    for (int i = 0; i < small_block; ++i) largest = std::max(largest, std::abs(source[i]));
    const float scale = largest / 127.0F;
    const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
    const std::uint16_t scale_bits = to_half(scale);
    std::memcpy(destination, &scale_bits, sizeof scale_bits);
    for (int i = 0; i < small_block; ++i) {
      const float rounded = std::clamp(std::nearbyint(source[i] * inverse), -127.0F, 127.0F);
      destination[2 + i] = static_cast<Byte>(static_cast<std::int8_t>(rounded));
    }
  }
}

void quantise_q4_1(const float* source, std::int64_t blocks, Byte* destination) {
  for (std::int64_t b = 0; b < blocks; ++b, source += small_block, destination += 20) {
    const auto [lowest, highest] = std::minmax_element(source, source + small_block);
    const float minimum = *lowest;
    const float scale = (*highest - minimum) / 15.0F;
    const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
    const std::uint16_t halves[2] = {to_half(scale), to_half(minimum)};
    std::memcpy(destination, halves, sizeof halves);
    const auto quant = [&](float value) {
      return static_cast<Byte>(std::clamp(std::nearbyint((value - minimum) * inverse), 0.0F, 15.0F));
    };
    for (int i = 0; i < 16; ++i) {
      destination[4 + i] = static_cast<Byte>(quant(source[i]) | (quant(source[i + 16]) << 4));
    }
  }
}

}  // namespace

void expand_blocks(StorageFormat format, const std::byte* source, std::int64_t elements, float* destination) {
  ZEROLOCK_INVARIANT(elements >= 0 && elements % block_elements(format) == 0, "blocks are expanded whole");
  const auto* bytes = reinterpret_cast<const Byte*>(source);
  switch (format) {
    case StorageFormat::f32:
      if (elements > 0) std::memcpy(destination, bytes, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case StorageFormat::f16:
      return expand_f16(bytes, elements, destination);
    case StorageFormat::bf16:
      return expand_bf16(bytes, elements, destination);
    case StorageFormat::f64:
      return expand_numbers<double>(bytes, elements, destination);
    case StorageFormat::i64:
      return expand_numbers<std::int64_t>(bytes, elements, destination);
    case StorageFormat::i32:
      return expand_numbers<std::int32_t>(bytes, elements, destination);
    case StorageFormat::u8:
      return expand_numbers<std::uint8_t>(bytes, elements, destination);
    case StorageFormat::q8_0:
      return expand_q8_0(bytes, elements / small_block, destination);
    case StorageFormat::q4_0:
      return expand_q4_0(bytes, elements / small_block, destination);
    case StorageFormat::q4_1:
      return expand_q4_1(bytes, elements / small_block, destination);
    case StorageFormat::q5_0:
      return expand_q5_0(bytes, elements / small_block, destination);
    case StorageFormat::q5_1:
      return expand_q5_1(bytes, elements / small_block, destination);
    case StorageFormat::q4_k:
      return expand_q4_k(bytes, elements / large_block, destination);
    case StorageFormat::q6_k:
      return expand_q6_k(bytes, elements / large_block, destination);
  }
  throw std::logic_error("no such storage format");
}

bool can_quantise_to(StorageFormat format) {
  return format == StorageFormat::f32 || format == StorageFormat::bf16 || format == StorageFormat::q8_0 ||
         format == StorageFormat::q4_1;
}

void quantise_blocks(StorageFormat format, const float* source, std::int64_t elements,
                     std::byte* destination) {
  ZEROLOCK_INVARIANT(elements >= 0 && elements % block_elements(format) == 0, "blocks are written whole");
  auto* bytes = reinterpret_cast<Byte*>(destination);
  switch (format) {
    case StorageFormat::f32:
      if (elements > 0) std::memcpy(bytes, source, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case StorageFormat::bf16:
      return quantise_bf16(source, elements, bytes);
    case StorageFormat::q8_0:
      return quantise_q8_0(source, elements / small_block, bytes);
    case StorageFormat::q4_1:
      return quantise_q4_1(source, elements / small_block, bytes);
    default:
      throw std::logic_error("cannot quantise to " + std::string(to_string(format)));
  }
}

}  // namespace zerolock
