#pragma once
/// Entries as frames. The layout travels with the entry, packed (packed_numbers.hpp): for classification a
/// few bytes a sequence, and about two bytes for each supervised row where all rows are.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tensors/base/entry.hpp"
#include "transport/frame.hpp"

namespace zerolock {

/// How a hidden state travels. Token ids always travel as 32-bit integers.
enum class WireType : std::uint8_t {
  fp32 = 1,
  bf16,  // rounded to nearest even
  int8,  // each row times 127 / its largest magnitude, rounded to nearest; one fp32 scale for each row
};
std::string_view to_string(WireType type);
/// The type in which hidden states of a compute type travel as they are.
WireType exact_wire_type(at::ScalarType compute_type);
/// "fp32", "bf16", "int8". Throws InputError that begins with `where`.
WireType parse_wire_type(std::string_view text, std::string_view where);

/// What an entry may be: the run's own numbers, not the peer's.
struct EntryLimits {
  std::int64_t rows_max = 0;
  std::int64_t sequences_max = 0;
  std::int64_t width = 0;       // of the hidden state; 0: the payload is token ids
  std::int64_t vocabulary = 0;  // token ids and targets lie in 0..vocabulary-1
  at::ScalarType compute_type = at::kFloat;
};

/// Bounds for FrameBounds::allow(FrameType::entry, ...).
std::uint32_t entry_metadata_bytes_max(const EntryLimits& limits);
std::uint64_t entry_payload_bytes_max(const EntryLimits& limits);

/// `session` is the boundary's session (BoundaryHello). Hidden states that already have the wire type are not
/// copied. Throws std::logic_error if the entry's parts do not fit each other.
Frame entry_frame(std::uint64_t session, const Entry& entry, WireType type);

struct ReceivedEntry {
  std::uint64_t session = 0;
  Entry entry;
};

/// The entry over the frame's own payload memory, in the limits' compute type. Throws WireError, one line,
/// for whatever is not an entry within the limits.
ReceivedEntry read_entry(const Frame& frame, const EntryLimits& limits);

}  // namespace zerolock
