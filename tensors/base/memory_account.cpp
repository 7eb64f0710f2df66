#include "tensors/base/memory_account.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace zerolock {
namespace {

// Threads that never said whose memory they use.
MemoryAccount& unowned_account() {
  static MemoryAccount account;
  return account;
}

struct Owner {
  MemoryAccount* account = nullptr;
  MemoryComponent component = MemoryComponent::activations;
};
thread_local Owner current_owner;

MemoryAccount* owner_account() {
  return current_owner.account ? current_owner.account : &unowned_account();
}

// Stands before each block, so that whoever frees it returns the bytes to the owner that allocated it.
struct alignas(64) BlockHeader {
  MemoryAccount* account;
  MemoryComponent component;
  std::size_t bytes;
};

void free_block(void* payload) {
  if (payload == nullptr) return;
  auto* header = reinterpret_cast<BlockHeader*>(static_cast<char*>(payload) - sizeof(BlockHeader));
  header->account->add(header->component, -static_cast<std::int64_t>(header->bytes));
  std::free(header);
}

c10::DataPtr allocate_block(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
  constexpr std::size_t alignment = alignof(BlockHeader);
  const std::size_t padded = (bytes + sizeof(BlockHeader) + alignment - 1) / alignment * alignment;
  if (padded < bytes) throw std::bad_alloc();
  auto* header = static_cast<BlockHeader*>(std::aligned_alloc(alignment, padded));
  if (header == nullptr) throw std::bad_alloc();
  *header = {owner_account(), current_owner.component, bytes};
  header->account->add(header->component, static_cast<std::int64_t>(bytes));
  void* payload = header + 1;
  return {payload, payload, &free_block, cpu};
}

class AccountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override {
    return allocate_block(bytes);
  }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
    return allocate_block(bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_block;
  }
};

}  // namespace

std::string_view to_string(MemoryComponent component) {
  switch (component) {
    case MemoryComponent::weights:
      return "weights";
    case MemoryComponent::activations:
      return "activations";
    case MemoryComponent::loss:
      return "loss";
    case MemoryComponent::buffers:
      return "buffers";
    case MemoryComponent::optimizer:
      return "optimizer";
  }
  return "unknown";
}

void MemoryAccount::Counter::add(std::int64_t bytes) {
  const std::int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void MemoryAccount::add(MemoryComponent component, std::int64_t bytes) {
  components_.at(static_cast<std::size_t>(component)).add(bytes);
  total_.add(bytes);
}

std::int64_t MemoryAccount::current_bytes(MemoryComponent component) const {
  return components_.at(static_cast<std::size_t>(component)).current.load(std::memory_order_relaxed);
}

std::int64_t MemoryAccount::peak_bytes(MemoryComponent component) const {
  return components_.at(static_cast<std::size_t>(component)).peak.load(std::memory_order_relaxed);
}

MemoryPeaks MemoryAccount::peaks() const {
  MemoryPeaks peaks;
  for (std::size_t index = 0; index < memory_component_count; ++index) {
    peaks.components[index] = peak_bytes(static_cast<MemoryComponent>(index));
  }
  peaks.total = peak_total_bytes();
  return peaks;
}

void MemoryAccount::reset_peaks() {
  for (Counter& counter : components_) counter.peak.store(counter.current.load());
  total_.peak.store(total_.current.load());
}

MemoryScope::MemoryScope(MemoryAccount& account, MemoryComponent component)
    : previous_account_(current_owner.account), previous_component_(current_owner.component) {
  current_owner = {&account, component};
}

MemoryScope::MemoryScope(MemoryComponent component)
    : previous_account_(current_owner.account), previous_component_(current_owner.component) {
  current_owner.component = component;
}

MemoryScope::~MemoryScope() {
  current_owner = {previous_account_, previous_component_};
}

void install_memory_accounting() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    // Never destroyed: tensors may be freed while the process's statics are torn down.
    static auto* allocator = new AccountingAllocator;  // NOLINT(cppcoreguidelines-owning-memory)
    constexpr std::uint8_t priority = 100;             // above LibTorch's own
    c10::SetCPUAllocator(allocator, priority);
  });
}

}  // namespace zerolock
