#include "data/csv_rows.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "data/csv.hpp"
#include "data/field_name.hpp"
#include "data/utf8.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::array<std::string_view, 5> kClassNames{"class", "label", "category", "topic", "class index"};
constexpr std::array<std::string_view, 2> kTextNames{"completion", "answer"};

struct Column {
  std::string name;  // in lower case
  std::size_t position = 0;
};

/// Which fields of a record are used, and which one is the answer.
struct Layout {
  std::vector<Column> fields;
  std::size_t answer = 0;  // position in the record
  bool is_class = true;
  bool has_header = false;
  bool is_ag_news = false;
};

bool is_class_name(std::string_view name) {
  return std::find(kClassNames.begin(), kClassNames.end(), name) != kClassNames.end();
}

bool is_answer_name(std::string_view name) {
  return is_class_name(name) || std::find(kTextNames.begin(), kTextNames.end(), name) != kTextNames.end();
}

std::vector<std::string> as_names(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  names.reserve(texts.size());
  for (const std::string& text : texts) names.push_back(lower_case(trimmed(text)));
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  return list;
}

/// Takes the answer's column out of the used ones: the first with a telling name, else the first of all.
Layout choose_answer(std::vector<Column> used, std::string_view where) {
  if (used.size() < 2) throw InputError(where, "needs a column for the prompt beside the one for the answer");
  auto answer = std::find_if(used.begin(), used.end(), [](const Column& c) { return is_class_name(c.name); });
  if (answer == used.end()) {
    answer = std::find_if(used.begin(), used.end(), [](const Column& c) { return is_answer_name(c.name); });
  }
  if (answer == used.end()) answer = used.begin();
  Layout layout;
  layout.answer = answer->position;
  layout.is_class = is_class_name(answer->name) || !is_answer_name(answer->name);
  used.erase(answer);
  layout.fields = std::move(used);
  return layout;
}

/// Columns picked by name from a header, or given as the names of a file that has none.
Layout layout_by_names(const std::vector<std::string>& first, const std::vector<std::string>& names,
                       std::string_view where) {
  std::vector<Column> used;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                                      names[i]) != names.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw InputError(where, "column names must be given once each and not be empty");
    }
    const auto found = std::find(first.begin(), first.end(), names[i]);
    if (found == first.end()) missing.push_back(names[i]);
    used.push_back({names[i], static_cast<std::size_t>(found - first.begin())});
  }
  const bool has_header = missing.size() < names.size();
  if (has_header && !missing.empty()) {
    throw InputError(where,
                     "the header has no column " + listed(missing) + " (it has: " + listed(first) + ")");
  }
  if (!has_header) {
    if (first.size() != names.size()) {
      throw InputError(where, std::to_string(names.size()) + " columns are named, but the first row has " +
                                  std::to_string(first.size()) + " fields and names none of them");
    }
    for (std::size_t i = 0; i < used.size(); ++i) used[i].position = i;
  }
  Layout layout = choose_answer(std::move(used), where);
  layout.has_header = has_header;
  return layout;
}

Layout layout_of(const CsvRow& first_row, const std::vector<std::string>& columns, std::string_view where) {
  const std::vector<std::string> first = as_names(first_row.fields);
  if (!columns.empty()) return layout_by_names(first, as_names(columns), where);
  if (std::any_of(first.begin(), first.end(), is_answer_name)) {
    std::vector<Column> used;
    for (std::size_t i = 0; i < first.size(); ++i) used.push_back({first[i], i});
    Layout layout = choose_answer(std::move(used), where);
    layout.has_header = true;
    return layout;
  }
  if (first.size() != 3) {
    throw InputError(where,
                     "expected class,title,description or a header with a column \"class\" or \"label\", "
                     "found " +
                         std::to_string(first.size()) +
                         " fields; a missing column can be named by the option for columns");
  }
  Layout layout = choose_answer({{"class", 0}, {"title", 1}, {"description", 2}}, where);
  layout.is_ag_news = true;
  return layout;
}

SourceRow row_of(CsvRow&& record, const Layout& layout) {
  for (const std::string& field : record.fields) {
    std::string problem = utf8_problem(field);
    if (!problem.empty()) return {record.line, BrokenRow{std::move(problem)}};
  }
  PromptRow row;
  row.is_class = layout.is_class;
  row.answer = std::move(record.fields[layout.answer]);
  for (const Column& column : layout.fields) {
    row.fields.emplace_back(column.name, std::move(record.fields[column.position]));
  }
  return {record.line, std::move(row)};
}

}  // namespace

CsvRows read_csv_rows(std::string_view text, const std::vector<std::string>& columns,
                      std::string_view where) {
  CsvRows result;
  std::optional<Layout> layout;
  CsvReader reader(text);
  while (std::optional<CsvRow> record = reader.next()) {
    if (record->error) {
      result.rows.push_back({record->line, BrokenRow{std::move(*record->error)}});
      continue;
    }
    const bool is_first = !layout;
    if (is_first) {
      layout = layout_of(*record, columns, std::string(where) + " line " + std::to_string(record->line));
      result.is_ag_news = layout->is_ag_news;
    }
    if (!is_first || !layout->has_header) result.rows.push_back(row_of(std::move(*record), *layout));
  }
  return result;
}

}  // namespace zerolock
