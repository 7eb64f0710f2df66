#pragma once
/// Tensor memory with an owner: every byte that LibTorch allocates is charged to a stage and a component.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zerolock {

/// What a stage's memory is spent on.
enum class MemoryComponent : std::uint8_t {
  weights,      // stored weights and the scratch they are expanded into
  activations,  // what a forward keeps for its backward, and the temporaries of both
  loss,         // readout and loss
  buffers,      // entries held for the neighbours
  optimizer,    // LoRA weights, their gradients and the optimizer's moments
};
inline constexpr std::size_t memory_component_count = 5;
std::string_view to_string(MemoryComponent component);

/// The highest numbers of bytes that an account has seen.
struct MemoryPeaks {
  std::array<std::int64_t, memory_component_count> components{};  // by MemoryComponent
  std::int64_t total = 0;  // at any one moment: at most the sum of the components

  [[nodiscard]] std::int64_t of(MemoryComponent component) const {
    return components.at(static_cast<std::size_t>(component));
  }
};

/// Bytes of one stage, now and at the highest, for each component and in total. Thread-safe. Must outlive
/// every tensor charged to it.
class MemoryAccount {
 public:
  MemoryAccount() = default;
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  /// Charges (or with a negative number returns) bytes. The allocator does this for tensors; call it for
  /// memory that does not come from there, such as the mapped weight files.
  void add(MemoryComponent component, std::int64_t bytes);

  [[nodiscard]] std::int64_t current_bytes(MemoryComponent component) const;
  [[nodiscard]] std::int64_t peak_bytes(MemoryComponent component) const;
  [[nodiscard]] std::int64_t current_total_bytes() const {
    return total_.current.load(std::memory_order_relaxed);
  }
  /// The highest sum at any one moment: at most the sum of the components' peaks.
  [[nodiscard]] std::int64_t peak_total_bytes() const { return total_.peak.load(std::memory_order_relaxed); }
  [[nodiscard]] MemoryPeaks peaks() const;
  /// Forgets the peaks: they start again from what is held now.
  void reset_peaks();

 private:
  struct Counter {
    std::atomic<std::int64_t> current{0};
    std::atomic<std::int64_t> peak{0};
    void add(std::int64_t bytes);
  };
  std::array<Counter, memory_component_count> components_;
  Counter total_;
};

/// While alive, tensors allocated by this thread are charged to the given account and component. Nests. A
/// tensor is returned to where it was charged, whichever thread frees it.
class MemoryScope {
 public:
  MemoryScope(MemoryAccount& account, MemoryComponent component);
  /// Another component of the account in force.
  explicit MemoryScope(MemoryComponent component);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryAccount* previous_account_;
  MemoryComponent previous_component_;
};

/// Puts the accounting allocator under LibTorch's CPU tensors. Call once in main, before the first tensor;
/// without it all accounts stay at zero. Calling it again changes nothing.
void install_memory_accounting();

}  // namespace zerolock
