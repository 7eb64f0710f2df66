#include "data/csv.hpp"

#include <algorithm>

namespace zerolock {
namespace {

enum class Backslash { kOrdinary, kEscapesQuote };

struct Record {
  std::vector<std::string> fields;
  std::size_t end = 0;  // where the next record begins
  std::string error;    // empty: well-formed
};

bool ends_field(std::string_view text, std::size_t at) {
  return at >= text.size() || text[at] == ',' || text[at] == '\n' || text[at] == '\r';
}

/// Whether the backslash at `at` escapes a quote. `\""` inside a field is a backslash before a doubled quote;
/// before the end of a field it is an escaped quote and the closing one.
bool escapes_quote(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size() || text[at] != '\\' || text[at + 1] != '"') return false;
  const bool doubled = at + 2 < text.size() && text[at + 2] == '"';
  return !doubled || ends_field(text, at + 3);
}

/// Reads a quoted field whose opening quote stands at `at`; leaves `at` behind the closing one.
std::string read_quoted(std::string_view text, std::size_t& at, Backslash backslash, std::string& error) {
  std::string field;
  for (++at; at < text.size(); ++at) {
    const bool escaped = backslash == Backslash::kEscapesQuote && escapes_quote(text, at);
    const bool doubled = text[at] == '"' && at + 1 < text.size() && text[at + 1] == '"';
    if (escaped || doubled) {
      field += '"';
      ++at;
    } else if (text[at] != '"') {
      field += text[at];
    } else {
      ++at;
      if (!ends_field(text, at)) error = "text after a closing quote (quotes inside a field are doubled)";
      return field;
    }
  }
  error = "a quoted field does not end";
  return field;
}

std::string read_bare(std::string_view text, std::size_t& at, std::string& error) {
  const std::size_t begin = at;
  while (!ends_field(text, at)) ++at;
  const std::string_view field = text.substr(begin, at - begin);
  if (field.find('"') != std::string_view::npos)
    error = "a quote inside a field that does not begin with one";
  return std::string(field);
}

/// Reads fields up to the end of the record or the first error.
Record read_record(std::string_view text, std::size_t at, Backslash backslash) {
  Record record;
  while (true) {
    const bool quoted = at < text.size() && text[at] == '"';
    record.fields.push_back(quoted ? read_quoted(text, at, backslash, record.error)
                                   : read_bare(text, at, record.error));
    if (!record.error.empty()) return record;
    if (at < text.size() && text[at] == ',') {
      ++at;
      continue;
    }
    if (at < text.size() && text[at] == '\r') ++at;
    if (at < text.size() && text[at] == '\n') ++at;
    record.end = at;
    return record;
  }
}

bool is_blank(const Record& record) {
  return record.error.empty() && record.fields.size() == 1 && record.fields[0].empty();
}

std::string width_error(std::size_t has, std::size_t expected) {
  return "has " + std::to_string(has) + (has == 1 ? " field" : " fields") + " where the first row has " +
         std::to_string(expected);
}

/// Where to go on after a record that cannot be told from what follows: at the next line.
std::size_t next_line(std::string_view text, std::size_t at) {
  const std::size_t line_end = text.find('\n', at);
  return line_end == std::string_view::npos ? text.size() : line_end + 1;
}

}  // namespace

std::optional<CsvRow> CsvReader::next() {
  if (text_.find_first_not_of(" \t\r\n", at_) == std::string_view::npos) return std::nullopt;
  const auto works = [this](const Record& record) {
    return record.error.empty() && !is_blank(record) && (width_ == 0 || record.fields.size() == width_);
  };
  Record record = read_record(text_, at_, Backslash::kOrdinary);
  if (!works(record)) {
    Record escaped = read_record(text_, at_, Backslash::kEscapesQuote);
    if (works(escaped)) record = std::move(escaped);
  }
  CsvRow row;
  row.line = line_;
  if (works(record)) {
    width_ = record.fields.size();
  } else if (!record.error.empty()) {
    row.error = record.error;
    record.end = next_line(text_, at_);
  } else {
    row.error = is_blank(record) ? "a blank line between rows" : width_error(record.fields.size(), width_);
  }
  row.fields = std::move(record.fields);
  const std::string_view passed = text_.substr(at_, record.end - at_);
  line_ += static_cast<std::size_t>(std::count(passed.begin(), passed.end(), '\n'));
  at_ = record.end;
  return row;
}

}  // namespace zerolock
