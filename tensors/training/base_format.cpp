#include "tensors/training/base_format.hpp"

namespace zerolock {

std::optional<StorageFormat> base_format(BaseFormat base) {
  switch (base) {
    case BaseFormat::keep:
      break;
    case BaseFormat::fp32:
      return StorageFormat::f32;
    case BaseFormat::bf16:
      return StorageFormat::bf16;
    case BaseFormat::q8_0:
      return StorageFormat::q8_0;
    case BaseFormat::q4_1:
      return StorageFormat::q4_1;
  }
  return std::nullopt;
}

WeightTransform base_conversion(BaseFormat base) {
  const std::optional<StorageFormat> format = base_format(base);
  if (!format) return {};
  return [format](const StoredTensor& weight) {
    return weight.format() == *format ? weight : weight.converted(*format);
  };
}

}  // namespace zerolock
