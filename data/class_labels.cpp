#include "data/class_labels.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>

#include "data/field_name.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::size_t kMostClasses = 1000;

std::optional<std::uint64_t> as_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> distinct_classes(const std::vector<SourceRow>& rows, std::string_view where) {
  std::set<std::string, std::less<>> classes;
  for (const SourceRow& row : rows) {
    const auto* prompt_row = std::get_if<PromptRow>(&row.content);
    if (!prompt_row || !prompt_row->is_class || trimmed(prompt_row->answer).empty()) continue;
    classes.emplace(trimmed(prompt_row->answer));
    if (classes.size() > kMostClasses) {
      throw InputError(where, "has more than " + std::to_string(kMostClasses) +
                                  " different classes; is the class in another column?");
    }
  }
  std::vector<std::string> sorted(classes.begin(), classes.end());
  if (std::all_of(sorted.begin(), sorted.end(),
                  [](const std::string& c) { return as_number(c).has_value(); })) {
    std::stable_sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
      return *as_number(a) < *as_number(b);
    });
  }
  return sorted;
}

}  // namespace

ClassLabels ClassLabels::choose(const std::vector<std::string>& given, bool is_ag_news,
                                const std::vector<SourceRow>& rows, std::string_view where) {
  std::vector<std::string> classes = distinct_classes(rows, where);
  if (classes.empty()) return ClassLabels({});
  if (given.empty()) {
    if (is_ag_news) return ClassLabels({"World", "Sports", "Business", "Science"});
    return ClassLabels(std::move(classes));
  }
  std::set<std::string> seen;
  for (const std::string& name : given) {
    if (trimmed(name).empty()) throw InputError("labels", "a label is empty");
    if (!seen.insert(name).second) throw InputError("labels", "\"" + name + "\" is given twice");
  }
  return ClassLabels(given);
}

std::optional<std::size_t> ClassLabels::find(std::string_view field) const {
  const std::string_view wanted = trimmed(field);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == wanted) return i;
  }
  const std::string lower = lower_case(wanted);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (lower_case(names_[i]) == lower) return i;
  }
  const std::optional<std::uint64_t> number = as_number(wanted);
  if (number && *number >= 1 && *number <= names_.size()) return static_cast<std::size_t>(*number - 1);
  return std::nullopt;
}

std::string ClassLabels::listed() const {
  constexpr std::size_t kShown = 10;
  std::string list;
  for (std::size_t i = 0; i < std::min(names_.size(), kShown); ++i) list += (i == 0 ? "" : ", ") + names_[i];
  if (names_.size() > kShown) list += ", ...";
  return list;
}

}  // namespace zerolock
