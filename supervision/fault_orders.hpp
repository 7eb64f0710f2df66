#pragma once
/// Faults that somebody orders for a running cluster, over the coordinator's port.

#include <functional>
#include <string>

#include "actors/core/fault_plan.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// What the coordinator takes on a connection for faults: one request with the fault as text. Its answer is a
/// part with the reason for a refusal, or with nothing.
ConnectionOptions fault_taker_options();
/// Serves one such connection. `order` is called on the network's thread; it returns why the fault is
/// refused, or nothing.
void serve_fault_order(const std::shared_ptr<Connection>& connection,
                       const std::function<std::string(const Fault&)>& order);

/// Orders a fault, and waits until the coordinator has taken it. `dial`: where it listens and who asks;
/// purpose and bounds are filled in. Throws RunError of one line: nobody is there, the order is refused, no
/// answer came.
void order_fault(DialOptions dial, const Fault& fault);

}  // namespace zerolock
