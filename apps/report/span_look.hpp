#pragma once
/// What each kind of a stage's time is called, in trace.json and in pictures, and how it is drawn.

#include <array>
#include <string_view>

#include "actors/core/reports.hpp"

namespace zerolock {

struct SpanLook {
  TraceSpan::Kind kind;
  std::string_view name;
  const char* fill;
};

/// Okabe and Ito's colours for work, greys for waiting.
inline constexpr std::array<SpanLook, 8> span_looks{
    {{TraceSpan::Kind::forward, "forward", "#0072b2"},
     {TraceSpan::Kind::backward, "backward", "#e69f00"},
     {TraceSpan::Kind::step, "step", "#d55e00"},
     {TraceSpan::Kind::checkpoint, "checkpoint", "#cc79a7"},
     {TraceSpan::Kind::wait_input, "wait for input", "#e0e0e0"},
     {TraceSpan::Kind::wait_output, "wait for room downstream", "#999999"},
     {TraceSpan::Kind::restore, "restore", "#009e73"},
     {TraceSpan::Kind::calibrate, "calibrate", "#56b4e9"}}};

const SpanLook& span_look(TraceSpan::Kind kind);

}  // namespace zerolock
