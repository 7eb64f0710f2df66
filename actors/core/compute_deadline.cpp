#include "actors/core/compute_deadline.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace zerolock {
namespace {

std::string seconds_text(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

std::string_view to_string(ComputeStep step) {
  switch (step) {
    case ComputeStep::receive:
      return "taking of an entry";
    case ComputeStep::forward:
      return "forward";
    case ComputeStep::backward:
      return "backward";
    case ComputeStep::step:
      return "optimizer step";
    case ComputeStep::calibration:
      return "calibration forward";
    case ComputeStep::fit:
      return "fit of the readout";
    case ComputeStep::copy:
      return "copy of the state";
  }
  return "step";
}

void ComputeDeadline::began(ComputeStep step, const BatchPosition& position, std::chrono::nanoseconds now) {
  under_way_ = UnderWay{step, position, now};
}

void ComputeDeadline::ended(std::chrono::nanoseconds now) {
  if (!under_way_) return;
  Times& measured = times_.at(static_cast<std::size_t>(under_way_->step));
  measured.push_back(now - under_way_->since);
  if (measured.size() > measured_most) measured.pop_front();
  under_way_.reset();
}

void ComputeDeadline::paused(std::chrono::nanoseconds length) {
  if (under_way_) under_way_->since += length;
}

std::optional<std::chrono::nanoseconds> ComputeDeadline::median(ComputeStep step) const {
  const Times& measured = times(step);
  if (measured.size() < measured_least) return std::nullopt;
  std::vector<std::chrono::nanoseconds> sorted(measured.begin(), measured.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::chrono::nanoseconds ComputeDeadline::allowed(ComputeStep step) const {
  const auto usual = median(step);
  if (!usual) return std::max(limits_.first, limits_.floor);
  return std::max(limits_.floor, limits_.multiple * *usual);
}

std::optional<std::string> ComputeDeadline::overdue(std::chrono::nanoseconds now) const {
  if (!under_way_) return std::nullopt;
  const std::chrono::nanoseconds taken = now - under_way_->since;
  if (taken <= allowed(under_way_->step)) return std::nullopt;
  const auto usual = median(under_way_->step);
  return to_string(under_way_->position) + ": the " + std::string(to_string(under_way_->step)) +
         " has taken " + seconds_text(taken) +
         (usual ? "; it usually takes " + seconds_text(*usual)
                : "; the first ones of a life may take " + seconds_text(allowed(under_way_->step)));
}

}  // namespace zerolock
