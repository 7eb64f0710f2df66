#pragma once
/// The numbers of a simulated run: hashes, so that a single wrong or missing one changes all that follow.

#include <cstdint>
#include <vector>

#include "actors/core/window_order.hpp"
#include "supervision/simulation/scenario.hpp"
#include "tensors/base/entry.hpp"

namespace zerolock::simulation {

/// What a stage holds: its trained state, and the gradient of the window that is open.
struct StageNumbers {
  std::uint64_t state = 0;
  std::uint64_t gradient = 0;

  bool operator==(const StageNumbers&) const = default;
};

/// Ids that the batch source gives out.
std::uint64_t source_value(const BatchPosition& position);
std::uint64_t initial_state(StageIndex stage);
/// The hidden state that a stage in `state` makes of an input.
std::uint64_t forward_value(std::uint64_t state, std::uint64_t input);
void add_gradient(StageNumbers& numbers, std::uint64_t input);
void apply_step(StageNumbers& numbers, WindowIndex window);
/// Checksum of a stored state.
std::uint64_t seal(StageIndex stage, WindowIndex window, std::uint64_t value);

Entry make_entry(const BatchPosition& position, Incarnation producer, std::uint64_t value,
                 std::uint64_t rows);
std::uint64_t value_of(const Entry& entry);

/// What an undisturbed run gives, everywhere and at each moment.
class ExpectedNumbers {
 public:
  explicit ExpectedNumbers(const Scenario& scenario);

  [[nodiscard]] std::uint64_t state_after(StageIndex stage, WindowIndex window) const {
    return states_.at(stage.value).at(window.value);
  }
  /// Of what crosses the boundary into `boundary`; boundary `stages` is what the last stage makes.
  [[nodiscard]] std::uint64_t entry(std::uint64_t boundary, const BatchPosition& position) const {
    return entries_.at(boundary).at(first_of_window_.at(position.window.value) + position.micro_batch);
  }

 private:
  std::vector<std::uint64_t> first_of_window_;
  std::vector<std::vector<std::uint64_t>> states_;   // [stage][window]
  std::vector<std::vector<std::uint64_t>> entries_;  // [boundary][micro-batch of the run]
};

}  // namespace zerolock::simulation
