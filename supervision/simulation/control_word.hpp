#pragma once
/// What coordinator and executors say to each other about stages.

#include <cstdint>
#include <cstring>
#include <string>

#include "actors/core/placement_core.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock::simulation {

constexpr std::uint64_t nowhere = ~std::uint64_t{0};
constexpr std::uint64_t coordinator_machine = nowhere - 1;

struct ControlWord {
  enum class Kind : std::uint64_t {
    // of an executor
    committed,  // stage, placement, incarnation, window
    durable,    // stage, placement, window, value, checksum: with the checkpoint
    // of the coordinator
    checkpoint,  // stage, window, value, checksum: comes before `assign`
    assign,      // stage, placement, window: the recovery line
    upstream,    // stage, node: where the stage before it is
    downstream,  // stage, node, placement: of the stage after it
    line,        // window
    end_at,      // window
  } kind = Kind::committed;
  StageIndex stage;
  Placement placement;
  Incarnation incarnation;
  WindowIndex window;
  std::uint64_t value = 0;
  std::uint64_t checksum = 0;
  std::uint64_t node = nowhere;

  [[nodiscard]] std::string bytes() const {
    std::string body(sizeof *this, '\0');
    std::memcpy(body.data(), this, sizeof *this);
    return body;
  }
  static ControlWord from(const std::string& body) {
    ControlWord word;
    std::memcpy(static_cast<void*>(&word), body.data(), sizeof word);
    return word;
  }
};

}  // namespace zerolock::simulation
