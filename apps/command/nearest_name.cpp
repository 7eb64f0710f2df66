#include "apps/command/nearest_name.hpp"

#include <algorithm>

namespace zerolock {

std::size_t edit_distance(std::string_view left, std::string_view right) {
  // Damerau-Levenshtein in its restricted form: three rows of the table are enough.
  std::vector<std::size_t> before(right.size() + 1), previous(right.size() + 1), current(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[right.size()];
}

std::optional<std::string> nearest_name(std::string_view mistyped,
                                        const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = mistyped.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(mistyped, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view mistyped, const std::vector<std::string>& candidates,
                       std::string_view prefix) {
  const std::optional<std::string> nearest = nearest_name(mistyped, candidates);
  return nearest ? "; did you mean " + std::string(prefix) + *nearest + "?" : "";
}

}  // namespace zerolock
