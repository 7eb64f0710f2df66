#include "actors/core/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::array kinds{
    FaultKind::throws,    FaultKind::kill,      FaultKind::hang,          FaultKind::sigkill,
    FaultKind::sigstop,   FaultKind::drop_link, FaultKind::corrupt_frame, FaultKind::corrupt_checkpoint,
    FaultKind::disk_full, FaultKind::release};
constexpr std::array points{
    FaultPoint::entry_received, FaultPoint::forward_begin,   FaultPoint::forward_end,
    FaultPoint::entry_sent,     FaultPoint::backward,        FaultPoint::step,
    FaultPoint::targets_made,   FaultPoint::targets_sent,    FaultPoint::fit_begin,
    FaultPoint::fit_end,        FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename,
    FaultPoint::manifest,       FaultPoint::durable_ack};

constexpr double seconds_max = 86'400;
constexpr std::uint64_t number_max = 1'000'000'000;

/// The one of `all` with that name.
template <class List>
auto named(const List& all, const std::string& text, const std::string& where) {
  std::string allowed;
  for (const auto item : all) {
    if (to_string(item) == text) return item;
    allowed += (allowed.empty() ? "" : ", ") + std::string(to_string(item));
  }
  throw InputError(where, "'" + text + "' is not known; allowed: " + allowed);
}

std::uint64_t whole_number(const std::string& text, std::uint64_t least, const std::string& where) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || parsed_to != end || value < least || value > number_max) {
    throw InputError(where, "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
                                std::to_string(number_max));
  }
  return value;
}

/// Whether a window comes to the point once for each micro-batch, or only once.
bool each_micro_batch(FaultPoint point) {
  switch (point) {
    case FaultPoint::entry_received:
    case FaultPoint::forward_begin:
    case FaultPoint::forward_end:
    case FaultPoint::entry_sent:
    case FaultPoint::backward:
      return true;
    default:
      return false;
  }
}

bool is_at(const Fault& fault, FaultPoint point, StageIndex stage, const BatchPosition& position) {
  if (fault.point != point || fault.stage != stage) return false;
  if (fault.window && *fault.window != position.window) return false;
  return !fault.micro_batch || !each_micro_batch(point) || *fault.micro_batch == position.micro_batch;
}

std::string seconds_text(std::chrono::milliseconds length) {
  std::string text = std::to_string(length.count() / 1000);
  const auto rest = length.count() % 1000;
  if (rest == 0) return text;
  const std::string digits = std::to_string(1000 + rest).substr(1);
  return text + "." + digits.substr(0, digits.find_last_not_of('0') + 1);
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::throws:
      return "throw";
    case FaultKind::kill:
      return "kill";
    case FaultKind::hang:
      return "hang";
    case FaultKind::sigkill:
      return "sigkill";
    case FaultKind::sigstop:
      return "sigstop";
    case FaultKind::drop_link:
      return "drop-link";
    case FaultKind::corrupt_frame:
      return "corrupt-frame";
    case FaultKind::corrupt_checkpoint:
      return "corrupt-checkpoint";
    case FaultKind::disk_full:
      return "disk-full";
    case FaultKind::release:
      return "release";
  }
  return "unknown";
}

FaultKind parse_fault_kind(const std::string& text, const std::string& where) {
  return named(kinds, text, where);
}

FaultPoint parse_fault_point(const std::string& text, const std::string& where) {
  return named(points, text, where);
}

std::chrono::milliseconds parse_fault_seconds(double seconds, const std::string& where) {
  if (!(seconds >= 0.001) || seconds > seconds_max) {
    throw InputError(where, "must be from 0.001 to " + std::to_string(static_cast<int>(seconds_max)));
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

const std::vector<std::string>& fault_keys() {
  static const std::vector<std::string> keys{"stage", "window", "micro_batch", "at",
                                             "phase", "times",  "seconds"};
  return keys;
}

void set_fault_key(Fault& fault, const std::string& key, const std::string& value, const std::string& where) {
  const std::string place = where + ": " + key;
  if (key == "stage") {
    fault.stage = StageIndex{whole_number(value, 0, place)};
  } else if (key == "window") {
    fault.window = WindowIndex{whole_number(value, 0, place)};
  } else if (key == "micro_batch") {
    fault.micro_batch = whole_number(value, 0, place);
  } else if (key == "at" || key == "phase") {
    fault.point = parse_fault_point(value, place);
  } else if (key == "times") {
    fault.times = whole_number(value, 1, place);
  } else if (key == "seconds") {
    double seconds = 0;
    const char* end = value.data() + value.size();
    const auto [parsed_to, error] = std::from_chars(value.data(), end, seconds);
    if (error != std::errc() || parsed_to != end) throw InputError(place, "'" + value + "' is not a number");
    fault.length = parse_fault_seconds(seconds, place);
  } else {
    std::string allowed;
    for (const std::string& known : fault_keys()) allowed += (allowed.empty() ? "" : ", ") + known;
    throw InputError(place, "unknown key; allowed: " + allowed);
  }
}

std::string to_string(const Fault& fault) {
  std::string text = std::string(to_string(fault.kind)) + " stage=" + std::to_string(fault.stage.value);
  if (fault.window) text += ",window=" + std::to_string(fault.window->value);
  if (fault.micro_batch) text += ",micro_batch=" + std::to_string(*fault.micro_batch);
  text += ",at=" + std::string(to_string(fault.point));
  if (fault.times != 1) text += ",times=" + std::to_string(fault.times);
  if (fault.length.count() != 0) text += ",seconds=" + seconds_text(fault.length);
  return text;
}

Fault parse_fault(const std::string& text, const std::string& where) {
  const auto blank = text.find(' ');
  Fault fault;
  fault.kind = parse_fault_kind(text.substr(0, blank), where);
  std::string rest = blank == std::string::npos ? "" : text.substr(blank + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string pair = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const auto equals = pair.find('=');
    if (equals == std::string::npos) {
      throw InputError(where, "'" + pair + "' is not KEY=VALUE");
    }
    set_fault_key(fault, pair.substr(0, equals), pair.substr(equals + 1), where);
  }
  return fault;
}

std::vector<Fault> FaultPlan::reached(FaultPoint point, StageIndex stage, const BatchPosition& position) {
  std::vector<Fault> due;
  for (Fault& fault : faults_) {
    if (!is_at(fault, point, stage, position)) continue;
    due.push_back(fault);
    // A disk is full for so many writes, all of which follow from this one moment.
    fault.times = fault.kind == FaultKind::disk_full ? 0 : fault.times - 1;
  }
  std::erase_if(faults_, [](const Fault& fault) { return fault.times == 0; });
  return due;
}

}  // namespace zerolock
