#include "transport/checksum.hpp"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same sums, by the widest instructions that the machine has
#endif

#include <new>

namespace zerolock {

namespace {

XXH3_state_t* state_of(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  reset();
}

void Checksum::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_of(state_.get()), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_of(state_.get()));
}

void Checksum::reset() {
  XXH3_64bits_reset(state_of(state_.get()));
}

void Checksum::Release::operator()(void* state) const {
  XXH3_freeState(state_of(state));
}

}  // namespace zerolock
