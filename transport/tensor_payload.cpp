#include "transport/tensor_payload.hpp"

#include <string>
#include <utility>

#include "tensors/base/error.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {

Payload payload_of(const at::Tensor& tensor) {
  ZEROLOCK_INVARIANT(tensor.is_contiguous() && tensor.device().is_cpu(), "a payload lies in one piece");
  auto owner = std::make_shared<const at::Tensor>(tensor);
  return {{static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}, std::move(owner)};
}

at::Tensor tensor_over(const Payload& payload, at::IntArrayRef shape, at::ScalarType type) {
  std::uint64_t expected = c10::elementSize(type);
  for (const std::int64_t extent : shape) expected *= static_cast<std::uint64_t>(extent);
  if (payload.size() != expected) {
    throw WireError("the payload has " + std::to_string(payload.size()) + " bytes instead of " +
                    std::to_string(expected));
  }
  if (expected == 0) return at::empty(shape, type);
  // LibTorch has no read-only tensors: nobody writes to what has been received.
  void* memory = const_cast<std::byte*>(payload.bytes.data());
  return at::from_blob(
      memory, shape, [owner = payload.owner](void*) {}, at::TensorOptions(type));
}

PayloadAllocator accounted_payloads(MemoryAccount& account) {
  return [&account](std::size_t bytes) {
    const MemoryScope scope(account, MemoryComponent::buffers);
    auto tensor = std::make_shared<at::Tensor>(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
    return PayloadMemory{{static_cast<std::byte*>(tensor->data_ptr()), bytes}, tensor};
  };
}

}  // namespace zerolock
