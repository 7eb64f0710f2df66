#pragma once
/// Lines of JSON as data rows.

#include <string_view>
#include <vector>

#include "data/source_row.hpp"

namespace zerolock {

/// Reads a text of one JSON object a line (without byte order mark) by the rules of dataset.hpp. Lines that
/// cannot be used are BrokenRows; blank lines after the last row are no rows.
std::vector<SourceRow> read_jsonl_rows(std::string_view text);

}  // namespace zerolock
