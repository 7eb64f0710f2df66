#pragma once
/// The journal on disk: one line for each record, brought to disk before it counts.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/core/journal.hpp"

namespace zerolock {

/// What a journal file holds.
struct JournalContent {
  std::vector<JournalRecord> records;
  /// The last line was cut short, as by a crash in the middle of writing it. Such a record was never
  /// promised.
  bool torn = false;
};

/// A line is a JSON object, a tab, and the first 16 digits of the object's SHA-256. Throws InputError naming
/// file and line for any damage but a torn last line. No file: no records.
JournalContent read_journal(const std::filesystem::path& file);

/// Goes on with the file, or begins it; a torn last line is removed. Throws InputError as read_journal, and
/// RunError if it cannot be written to.
std::unique_ptr<Journal> open_journal(const std::filesystem::path& file);

}  // namespace zerolock
