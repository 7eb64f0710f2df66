#pragma once
/// CSV records as data rows: which column is which.

#include <string>
#include <string_view>
#include <vector>

#include "data/source_row.hpp"

namespace zerolock {

struct CsvRows {
  std::vector<SourceRow> rows;
  bool is_ag_news = false;  // no header and no named columns: class, title, description
};

/// Reads a CSV text (without byte order mark) by the rules of dataset.hpp. Rows that cannot be read are
/// BrokenRows. Throws InputError naming `where` where no column can be told from another: an unknown or
/// missing column, a first row of an unexpected width.
CsvRows read_csv_rows(std::string_view text, const std::vector<std::string>& columns, std::string_view where);

}  // namespace zerolock
