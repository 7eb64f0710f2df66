#include "transport/payload.hpp"

#include <new>

namespace zerolock {

PayloadMemory allocate_payload(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::shared_ptr<void> owner(memory, [](void* held) { ::operator delete (held, std::align_val_t{64}); });
  return {{memory, bytes}, std::move(owner)};
}

}  // namespace zerolock
