#pragma once
/// Training and evaluation rows: read from CSV, JSONL or text, put into a prompt, tokenised.
///
/// What a file may hold, by the ending of its name:
///
/// - `.csv`: one row an example. Without a header three columns: class, title, description (AG News). With a
/// header, a
///   column named class, label, category, topic or "class index" holds the class, or one named completion or
///   answer a free text. `columns` picks columns of a header by name, or names those of a file without
///   header; the answer is then the column of one of the names above, else the first. See csv.hpp for quotes
///   and line breaks.
/// - `.jsonl`: one object a line: {"prompt","completion"}; {"text"}, of which every token after the first is
/// learned;
///   {"messages":[{"role","content"}]}, put through the model's chat template (chat_template.hpp), of which
///   the assistant's turns are learned; or an object with a "class" or "label" among its fields.
/// - `.txt`, `.text`, `.md` or no ending: the whole file is one text.
///
/// A class is written as one of `labels` (also in another letter case) or as its number from 1. Without
/// `labels` an AG News file has World, Sports, Business, Science, and any other file its own distinct
/// classes, sorted.
///
/// Default templates: "Article: [[{title} {description}]]\nTopic:" for labelled rows (all fields but the
/// class, in their order), "{prompt}" for completions. The answer is encoded apart from the prompt, as it
/// will be met when the model writes on from a prompt.
///
/// A text longer than a row becomes several rows, each beginning with the last token of the one before, so
/// that every token but the first is learned once.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/example.hpp"
#include "data/prompt_template.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

struct DatasetOptions {
  /// Tokens of a row at most; longer prompts are cut, rows with a longer answer left out.
  std::size_t sequence_length = 128;
  /// Default: what the rows suggest, see above.
  std::optional<PromptTemplate> prompt = {};
  /// Names of a CSV's columns. Default: the header, or class,title,description.
  std::vector<std::string> columns = {};
  /// Names of the classes, in order. Default: see above.
  std::vector<std::string> labels = {};
  /// Examples at most; 0 for all.
  std::uint64_t limit = 0;
  /// Count broken rows instead of refusing the file.
  bool skip_bad_rows = false;
  /// End answers with the end-of-text token. Default: texts and completions do, classes do not.
  std::optional<bool> append_eos = {};
};

/// What happened to the rows that were not taken as they stood. Lines are 1-based.
struct DatasetReport {
  std::uint64_t rows = 0;              // examples kept
  std::uint64_t prompts_cut = 0;       // kept, with a shortened prompt
  std::uint64_t texts_split = 0;       // kept, as several examples
  std::uint64_t empty_answers = 0;     // left out: nothing to learn from
  std::uint64_t answers_too_long = 0;  // left out
  std::uint64_t bad_rows = 0;          // left out (skip_bad_rows)
  std::vector<std::string> notes;      // one line each, the first few of each kind: "train.csv line 17: ..."
};

struct Dataset {
  std::vector<Example> examples;
  std::vector<std::string> labels;  // class names; empty for free text
  DatasetReport report;
  /// SHA-256 of the file, of all tokens and of what is supervised: names the data in a run.
  std::string content_hash;
};

/// Reads a file as described above. Throws InputError with file and line for anything broken, for a file
/// without a usable row, and for options out of range.
Dataset read_dataset(const std::filesystem::path& file, const Tokenizer& tokenizer,
                     const DatasetOptions& options);

}  // namespace zerolock
