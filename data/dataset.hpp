#pragma once
/// Training and evaluation rows: read from CSV, JSONL or text, put into a prompt, tokenised.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/prompt_template.hpp"
#include "data/tokenizer.hpp"

namespace zerolock {

/// One tokenised row. Tokens answer_begin.. are supervised, everything before is prompt.
struct Example {
  std::vector<TokenId> tokens;
  std::size_t answer_begin = 0;
  std::size_t source_line = 0;       // 1-based line of the file where the row begins
  std::optional<std::size_t> label;  // index into DatasetOptions::labels, for labelled rows
};

struct DatasetOptions {
  std::size_t sequence_length =
      128;  // tokens of a row at most; longer prompts are cut, longer answers left out
  std::optional<PromptTemplate> prompt;  // default: what the file's kind suggests (see docs)
  std::vector<std::string> columns;  // names of a CSV's columns; default: header, or class,title,description
  std::vector<std::string> labels;   // names of the classes, in order
  std::uint64_t limit = 0;           // rows at most; 0 for all
  bool skip_bad_rows = false;        // count broken rows instead of refusing the file
};

/// What happened to the rows that were not taken as they stood. Lines are 1-based; each list holds the first
/// few.
struct DatasetReport {
  std::uint64_t rows = 0;  // kept
  std::uint64_t prompts_cut = 0;
  std::uint64_t empty_answers = 0;     // kept out
  std::uint64_t answers_too_long = 0;  // kept out
  std::uint64_t bad_rows = 0;          // kept out (skip_bad_rows)
  std::vector<std::string> notes;      // one line each: "train.csv line 17: ..."
};

struct Dataset {
  std::vector<Example> examples;
  std::vector<std::string> labels;  // class names; empty for free text
  DatasetReport report;
  std::string content_hash;  // SHA-256 of the file and of what was done with it: names the data in a run
};

/// Reads .csv, .jsonl or plain text by its name's ending. Throws InputError with file and line.
Dataset read_dataset(const std::filesystem::path& file, const Tokenizer& tokenizer,
                     const DatasetOptions& options);

}  // namespace zerolock
