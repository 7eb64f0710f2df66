/// How readouts and trained stages are written on the command line.

#include <algorithm>
#include <array>

#include "apps/command/train_options.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t stages_max = 1024;
constexpr std::string_view full_suffix = ":full";
/// By HeadKind.
constexpr std::array<const char*, 5> head_names{"static", "restricted", "calibrated", "adapter",
                                                "bottleneck"};

/// Whether the kind can be over the labels' tokens or over the whole vocabulary.
bool has_both_vocabularies(HeadKind kind) {
  return kind != HeadKind::fixed && kind != HeadKind::restricted;
}

HeadChoice parse_head(const std::string& text, const std::string& where) {
  const bool full = text.size() > full_suffix.size() && text.ends_with(full_suffix);
  const std::string name = full ? text.substr(0, text.size() - full_suffix.size()) : text;
  const auto* const found = std::find(head_names.begin(), head_names.end(), name);
  if (found == head_names.end()) {
    throw InputError(where, "'" + text +
                                "' is not supported; this version has: static, restricted, calibrated, "
                                "adapter, bottleneck");
  }
  const auto kind = static_cast<HeadKind>(found - head_names.begin());
  if (full && !has_both_vocabularies(kind)) {
    throw InputError(where, "'" + text + "': only calibrated, adapter and bottleneck take :full");
  }
  return {kind, full};
}

std::string head_text(const HeadChoice& head) {
  return std::string(head_names[static_cast<std::size_t>(head.kind)]) +
         (head.full_vocabulary ? std::string(full_suffix) : "");
}

}  // namespace

bool HeadChoice::restricted(bool rows_have_classes) const {
  if (kind == HeadKind::restricted) return true;
  return has_both_vocabularies(kind) && rows_have_classes && !full_vocabulary;
}

void parse_heads(const std::string& text, const std::string& where, HeadChoice& inner, HeadChoice& last) {
  if (text.find('=') == std::string::npos) {
    inner = last = parse_head(text, where);
    if (last.kind == HeadKind::calibrated) last = HeadChoice{};
    return;
  }
  for (const std::string& part : split_list(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "inner") {
      inner = parse_head(value, where);
    } else if (key == "last") {
      last = parse_head(value, where);
    } else {
      throw InputError(where, "'" + part + "' is neither inner=HEAD nor last=HEAD");
    }
  }
  if (last.kind == HeadKind::calibrated) {
    throw InputError(where,
                     "calibrated is for inner stages; the last stage's state is what they are fitted to");
  }
}

std::string heads_text(const HeadChoice& inner, const HeadChoice& last) {
  if (inner == last) return head_text(inner);
  return "inner=" + head_text(inner) + ",last=" + head_text(last);
}

TrainedStages TrainedStages::parse(const std::string& text, const std::string& where) {
  if (text == "all") return {Kind::all, {}};
  if (text == "last") return {Kind::last, {}};
  TrainedStages stages{Kind::listed, {}};
  for (const std::string& item : split_list(text)) {
    const bool digits = !item.empty() && item.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw InputError(where, "'" + text + "' is not all, last or a list of stages like 0,2");
    const std::uint64_t stage = parse_integer(item, 0, stages_max - 1, where);
    if (!stages.listed.insert(stage).second) {
      throw InputError(where, "stage " + std::to_string(stage) + " is named twice");
    }
  }
  if (stages.listed.empty()) throw InputError(where, "the list is empty; allowed: all, last or stages");
  return stages;
}

std::string TrainedStages::text() const {
  if (kind == Kind::all) return "all";
  if (kind == Kind::last) return "last";
  std::vector<std::string> numbers;
  for (const std::uint64_t stage : listed) numbers.push_back(std::to_string(stage));
  return joined(numbers, ",");
}

std::optional<std::set<std::uint64_t>> TrainedStages::of(std::uint64_t stages) const {
  if (kind == Kind::all) return std::nullopt;
  if (kind == Kind::last) return std::set<std::uint64_t>{stages - 1};
  if (*listed.rbegin() >= stages) {
    throw InputError("--train-stages", "'" + std::to_string(*listed.rbegin()) +
                                           "' is not a stage; allowed: 0 to " + std::to_string(stages - 1));
  }
  return listed;
}

}  // namespace zerolock
