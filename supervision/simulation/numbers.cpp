#include "supervision/simulation/numbers.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <memory>

namespace zerolock::simulation {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return Random{a * 0x9e3779b97f4a7c15ULL ^ b}.next();
}

}  // namespace

std::uint64_t source_value(const BatchPosition& position) {
  return mix(1, mix(position.window.value, position.micro_batch));
}

std::uint64_t initial_state(StageIndex stage) {
  return mix(2, stage.value);
}

std::uint64_t forward_value(std::uint64_t state, std::uint64_t input) {
  return mix(mix(3, state), input);
}

void add_gradient(StageNumbers& numbers, std::uint64_t input) {
  numbers.gradient = mix(numbers.gradient, forward_value(numbers.state, input));
}

void apply_step(StageNumbers& numbers, WindowIndex window) {
  numbers.state = mix(mix(numbers.state, numbers.gradient), window.value);
  numbers.gradient = 0;
}

std::uint64_t seal(StageIndex stage, WindowIndex window, std::uint64_t value) {
  return mix(mix(4, stage.value), mix(window.value, value));
}

Entry make_entry(const BatchPosition& position, Incarnation producer, std::uint64_t value,
                 std::uint64_t rows) {
  Entry entry;
  entry.position = position;
  entry.producer = producer;
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, static_cast<std::int64_t>(rows)};
  entry.layout = std::move(layout);
  entry.payload = at::zeros({static_cast<std::int64_t>(rows)}, at::kLong);
  std::memcpy(entry.payload.data_ptr<std::int64_t>(), &value, sizeof value);
  return entry;
}

std::uint64_t value_of(const Entry& entry) {
  std::uint64_t value = 0;
  std::memcpy(&value, entry.payload.data_ptr<std::int64_t>(), sizeof value);
  return value;
}

ExpectedNumbers::ExpectedNumbers(const Scenario& scenario) {
  std::vector<StageNumbers> stages;
  for (std::uint64_t k = 0; k < scenario.stages; ++k) {
    stages.push_back({initial_state(StageIndex{k}), 0});
    states_.push_back({stages[k].state});
  }
  entries_.resize(scenario.stages + 1);
  first_of_window_.push_back(0);
  for (WindowIndex window{1}; window <= scenario.last_window; window = window.next()) {
    first_of_window_.push_back(entries_.front().size());
    for (std::uint64_t i = 0; i < scenario.micro_batches(window); ++i) {
      std::uint64_t value = source_value({window, i});
      entries_.front().push_back(value);
      for (std::uint64_t k = 0; k < scenario.stages; ++k) {
        add_gradient(stages[k], value);
        value = forward_value(stages[k].state, value);
        entries_[k + 1].push_back(value);
      }
    }
    for (std::uint64_t k = 0; k < scenario.stages; ++k) {
      apply_step(stages[k], window);
      states_[k].push_back(stages[k].state);
    }
  }
}

}  // namespace zerolock::simulation
