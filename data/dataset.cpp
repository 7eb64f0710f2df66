#include "data/dataset.hpp"

#include <array>
#include <fstream>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "data/chat_template.hpp"
#include "data/class_labels.hpp"
#include "data/csv_rows.hpp"
#include "data/example_builder.hpp"
#include "data/field_name.hpp"
#include "data/jsonl_rows.hpp"
#include "data/utf8.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"

namespace zerolock {
namespace {

constexpr std::size_t kNotesOfAKind = 5;

enum class FileKind { kCsv, kJsonl, kText };

FileKind kind_of(const std::filesystem::path& file) {
  const std::string ending = lower_case(file.extension().string());
  if (ending == ".csv") return FileKind::kCsv;
  if (ending == ".jsonl" || ending == ".ndjson") return FileKind::kJsonl;
  if (ending.empty() || ending == ".txt" || ending == ".text" || ending == ".md") return FileKind::kText;
  throw InputError(file.string(),
                   "unsupported kind of data file \"" + ending +
                       "\" (supported: .csv, .jsonl, and .txt, .text, .md or no ending for text)");
}

std::string read_bytes(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) throw InputError(file.string(), "no such data file");
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(static_cast<std::size_t>(std::filesystem::file_size(file)), '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream || static_cast<std::size_t>(stream.gcount()) != bytes.size()) {
    throw InputError(file.string(), "cannot be read");
  }
  return bytes;
}

/// The text behind a byte order mark.
std::string_view without_mark(std::string_view bytes, const std::filesystem::path& file) {
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) {
    throw InputError(file.string(), "is UTF-16, must be UTF-8");
  }
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  if (trimmed(bytes).empty()) throw InputError(file.string(), "is empty");
  return bytes;
}

/// One row of the whole text, and a broken row for each line that is not UTF-8, which the text then lacks.
std::vector<SourceRow> read_text_rows(std::string_view text) {
  std::vector<SourceRow> rows;
  std::string kept;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    const std::string_view this_line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    if (std::string problem = utf8_problem(this_line); problem.empty()) {
      kept += this_line;
    } else {
      rows.push_back({line, BrokenRow{std::move(problem)}});
    }
    text.remove_prefix(this_line.size());
  }
  rows.push_back({1, TextRow{std::move(kept)}});
  return rows;
}

/// Turns source rows into examples and keeps the report.
class Assembler {
 public:
  Assembler(std::filesystem::path file, FileKind kind, const Tokenizer& tokenizer,
            const DatasetOptions& options)
      : file_(std::move(file)),
        kind_(kind),
        tokenizer_(tokenizer),
        options_(options),
        builder_(tokenizer, options.sequence_length) {}

  Dataset run(std::vector<SourceRow> rows, const ClassLabels& labels) {
    dataset_.labels = labels.names();
    for (SourceRow& row : rows) {
      if (is_full()) break;
      add(row, labels);
      row.content = BrokenRow{};  // its text is not needed twice in memory
    }
    DatasetReport& report = dataset_.report;
    report.rows = dataset_.examples.size();
    if (report.rows == 0) {
      throw InputError(file_.string(), "has no row to learn from (" + std::to_string(report.empty_answers) +
                                           " without an answer, " + std::to_string(report.answers_too_long) +
                                           " too long, " + std::to_string(report.bad_rows) + " broken)");
    }
    return std::move(dataset_);
  }

 private:
  [[nodiscard]] bool is_full() const {
    return options_.limit != 0 && dataset_.examples.size() >= options_.limit;
  }

  void add(const SourceRow& row, const ClassLabels& labels) {
    if (const auto* broken = std::get_if<BrokenRow>(&row.content)) return refuse(row.line, broken->reason);
    if (const auto* text = std::get_if<TextRow>(&row.content)) return add_text(row.line, *text);
    if (const auto* chat = std::get_if<ChatRow>(&row.content)) return add_chat(row.line, *chat);
    add_prompt(row.line, std::get<PromptRow>(row.content), labels);
  }

  void add_prompt(std::size_t line, const PromptRow& row, const ClassLabels& labels) {
    if (trimmed(row.answer).empty())
      return leave_out_empty(line, row.is_class ? "no class" : "an empty answer");
    std::optional<std::size_t> label;
    if (row.is_class) {
      label = labels.find(row.answer);
      if (!label) {
        return refuse(line, "unknown class \"" + std::string(trimmed(row.answer)) +
                                "\" (allowed: " + labels.listed() + ", or their numbers from 1)");
      }
      if (is_blank(row)) return leave_out_empty(line, "a class but no text");
    }
    const PromptTemplate& prompt = template_for(row);
    const std::map<std::string, std::string> fields(row.fields.begin(), row.fields.end());
    PromptTemplate::Prompt filled;
    std::string answer;
    try {
      filled = prompt.fill(fields);
      answer = prompt.answer(label ? labels.names()[*label] : row.answer, label ? " " : "", fields);
    } catch (const InputError& error) {
      return refuse(line, error.what());
    }
    take(line, builder_.prompt_and_answer(filled, answer, options_.append_eos.value_or(!row.is_class)),
         label);
  }

  void add_text(std::size_t line, const TextRow& row) {
    refuse_template("of text");
    if (trimmed(row.text).empty()) return leave_out_empty(line, "an empty text");
    BuiltExamples built = builder_.text(row.text, options_.append_eos.value_or(true));
    if (built.examples.size() > 1) ++dataset_.report.texts_split;
    const std::size_t first = dataset_.examples.size();
    take(line, std::move(built), std::nullopt);
    if (kind_ == FileKind::kText) number_lines(first);
  }

  void add_chat(std::size_t line, const ChatRow& row) {
    refuse_template("of messages");
    if (!chat_) chat_ = ChatTemplate::recognise(tokenizer_.chat_template(), line_of(line));
    try {
      take(line, builder_.conversation(chat_->render(row.messages)), std::nullopt);
    } catch (const InputError& error) {
      refuse(line, error.what());
    }
  }

  void take(std::size_t line, BuiltExamples built, std::optional<std::size_t> label) {
    DatasetReport& report = dataset_.report;
    if (built.outcome == BuiltExamples::Outcome::kEmpty)
      return leave_out_empty(line, "nothing to learn from");
    if (built.outcome == BuiltExamples::Outcome::kTooLong) {
      note(report.answers_too_long, line,
           "left out: the answer does not fit into " + std::to_string(options_.sequence_length) + " tokens");
      return;
    }
    if (built.prompt_cut) ++report.prompts_cut;
    for (Example& example : built.examples) {
      if (is_full()) return;
      example.source_line = line;
      example.label = label;
      dataset_.examples.push_back(std::move(example));
    }
  }

  /// Gives the pieces of a text file the lines on which they begin, as far as their tokens' text tells.
  void number_lines(std::size_t first) {
    std::size_t line = 1;
    for (std::size_t i = first; i < dataset_.examples.size(); ++i) {
      Example& example = dataset_.examples[i];
      example.source_line = line;
      // The last token is met again at the start of the next piece.
      const std::span<const TokenId> counted(example.tokens.data(), example.tokens.size() - 1);
      for (const char c : tokenizer_.decode(counted, true)) line += c == '\n' ? 1 : 0;
    }
  }

  [[nodiscard]] static bool is_blank(const PromptRow& row) {
    for (const auto& [name, value] : row.fields) {
      if (!trimmed(value).empty()) return false;
    }
    return true;
  }

  const PromptTemplate& template_for(const PromptRow& row) {
    if (options_.prompt) return *options_.prompt;
    std::string text = "{prompt}";
    if (row.is_class) {
      text = "Article: [[";
      for (const auto& [name, value] : row.fields) text += (text.ends_with('[') ? "{" : " {") + name + "}";
      text += "]]\nTopic:";
    }
    const auto found = default_templates_.find(text);
    if (found != default_templates_.end()) return found->second;
    return default_templates_.emplace(text, PromptTemplate::parse(text, "the default template"))
        .first->second;
  }

  void refuse_template(std::string_view rows) const {
    if (options_.prompt) {
      throw InputError(file_.string(), "a prompt template has no place in rows " + std::string(rows));
    }
  }

  [[nodiscard]] std::string line_of(std::size_t line) const {
    return file_.string() + " line " + std::to_string(line);
  }

  void refuse(std::size_t line, const std::string& reason) {
    if (!options_.skip_bad_rows) throw InputError(line_of(line), reason);
    note(dataset_.report.bad_rows, line, "left out: " + reason);
  }

  void leave_out_empty(std::size_t line, const std::string& what) {
    note(dataset_.report.empty_answers, line, "left out: " + what);
  }

  /// Counts a row in `counter` and says so for the first few of its kind.
  void note(std::uint64_t& counter, std::size_t line, const std::string& what) {
    if (counter++ >= kNotesOfAKind) return;
    dataset_.report.notes.push_back(file_.filename().string() + " line " + std::to_string(line) + ": " +
                                    what);
  }

  std::filesystem::path file_;
  FileKind kind_;
  const Tokenizer& tokenizer_;
  const DatasetOptions& options_;
  ExampleBuilder builder_;
  std::optional<ChatTemplate> chat_;
  std::map<std::string, PromptTemplate> default_templates_;
  Dataset dataset_;
};

/// SHA-256 over the file and over everything that training will see of it.
std::string hash_of(std::string_view bytes, const Dataset& dataset) {
  Sha256 hash;
  const auto add = [&hash](std::uint64_t number) {
    std::array<std::byte, 8> little_endian{};
    for (std::size_t i = 0; i < 8; ++i) little_endian[i] = static_cast<std::byte>(number >> (8 * i));
    hash.update(std::span<const std::byte>(little_endian));
  };
  hash.update(std::string_view("zerolock data set, version 1\n"));
  add(bytes.size());
  hash.update(bytes);
  add(dataset.labels.size());
  for (const std::string& label : dataset.labels) {
    add(label.size());
    hash.update(std::string_view(label));
  }
  for (const Example& example : dataset.examples) {
    add(example.tokens.size());
    for (const TokenId id : example.tokens) add(static_cast<std::uint64_t>(id));
    add(example.supervised.size());
    for (const TokenSpan& span : example.supervised) {
      add(span.begin);
      add(span.end);
    }
    add(example.label ? *example.label + 1 : 0);
  }
  return hash.finish();
}

}  // namespace

Dataset read_dataset(const std::filesystem::path& file, const Tokenizer& tokenizer,
                     const DatasetOptions& options) {
  const FileKind kind = kind_of(file);
  Assembler assembler(file, kind, tokenizer, options);
  const std::string bytes = read_bytes(file);
  const std::string_view text = without_mark(bytes, file);
  if (kind != FileKind::kCsv && !options.columns.empty()) {
    throw InputError(file.string(), "columns can be named for .csv files only");
  }
  std::vector<SourceRow> rows;
  bool is_ag_news = false;
  if (kind == FileKind::kCsv) {
    CsvRows csv = read_csv_rows(text, options.columns, file.string());
    rows = std::move(csv.rows);
    is_ag_news = csv.is_ag_news;
  } else {
    rows = kind == FileKind::kJsonl ? read_jsonl_rows(text) : read_text_rows(text);
  }
  const ClassLabels labels = ClassLabels::choose(options.labels, is_ag_news, rows, file.string());
  Dataset dataset = assembler.run(std::move(rows), labels);
  dataset.content_hash = hash_of(bytes, dataset);
  return dataset;
}

}  // namespace zerolock
