#pragma once
/// "Did you mean": the known name closest to a mistyped one.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
std::size_t edit_distance(std::string_view left, std::string_view right);

/// The candidate with the smallest distance (the first of equals), or nothing if even that one differs in
/// more than half of the mistyped name's letters.
std::optional<std::string> nearest_name(std::string_view mistyped,
                                        const std::vector<std::string>& candidates);

/// "; did you mean NAME?" with `prefix` before the name, or nothing.
std::string suggestion(std::string_view mistyped, const std::vector<std::string>& candidates,
                       std::string_view prefix);

}  // namespace zerolock
