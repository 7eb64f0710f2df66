#pragma once
/// Comma-separated rows: RFC 4180, and what files in the wild add to it.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolock {

/// One record of a CSV text, or why it is none.
struct CsvRow {
  std::vector<std::string> fields;
  std::size_t line = 0;              // 1-based line on which the record begins
  std::optional<std::string> error;  // a broken record: the reason, without place
};

/// Walks a CSV text record by record.
///
/// Fields may be quoted; a quoted field may hold commas, line breaks and doubled quotes. Lines end with LF or
/// CRLF, the last one need not. Blank lines after the last record are no records; a blank line between
/// records is a broken one.
///
/// A backslash is an ordinary character, as in RFC 4180 and in AG News, whose fields may end with one. Only
/// where a record cannot be read so (it is malformed, or has another number of fields than the first one) it
/// is read again with
/// `\"` as an escaped quote, and that reading is taken if it works out.
///
/// After a broken record reading goes on at the next line, so that an unterminated quote costs one line, not
/// the file.
class CsvReader {
 public:
  /// `text` (without byte order mark) must outlive the reader.
  explicit CsvReader(std::string_view text) : text_(text) {}

  /// The next record, broken or not; nothing at the end.
  std::optional<CsvRow> next();

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t width_ = 0;  // fields of the first record; 0 before it
};

}  // namespace zerolock
