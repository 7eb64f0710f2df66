#pragma once
/// What the two links of a boundary tell each other beside entries.

#include <cstdint>
#include <memory>

#include "actors/core/flow_credit.hpp"
#include "actors/protocol.hpp"
#include "actors/remote/link_faults.hpp"
#include "actors/remote/traffic.hpp"
#include "tensors/base/entry.hpp"
#include "transport/connection.hpp"
#include "transport/entry_frame.hpp"
#include "transport/frame.hpp"

namespace zerolock {

/// Everything that both ends of a boundary must agree upon.
struct BoundaryTerms {
  EntryLimits limits;
  WireType wire_type = WireType::fp32;
  std::uint64_t depth = 4;
  std::size_t buffer_bytes_max = 0;    // of the buffers behind the links, and so of what waits in a link
  std::shared_ptr<LinkFaults> faults;  // for injected ones; null: none
  TrafficWatch watch;                  // of entries that come in
};

/// An entry waits for so many bytes of credit.
struct BlockedEntry {
  BatchPosition position;
  std::uint64_t bytes = 0;
};
/// Credit of a session.
struct SessionCredit {
  std::uint64_t session = 0;
  EntryCredit credit;
};

Frame opening_frame(const BoundaryHello& hello);
Frame credit_frame(const SessionCredit& credit);
Frame blocked_frame(const BlockedEntry& blocked);
/// Each throws WireError for bytes that are not its kind.
BoundaryHello read_opening(const Frame& frame);
SessionCredit read_credit(const Frame& frame);
BlockedEntry read_blocked(const Frame& frame);

/// What a downstream takes from its upstream: entries, and word of a blocked one.
ConnectionOptions downstream_options(const BoundaryTerms& terms);
/// What an upstream takes from its downstream: openings and credit. Nothing else flows against the direction
/// of training.
ConnectionOptions upstream_options(const BoundaryTerms& terms);

}  // namespace zerolock
