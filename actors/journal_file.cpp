#include "actors/journal_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/descriptor.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/file_operations.hpp"

namespace zerolock {
namespace {

using Json = nlohmann::json;
using Kind = JournalRecord::Kind;

constexpr std::size_t check_digits = 16;
/// Far more than any run writes: one line of a hundred bytes for each window and stage.
constexpr std::uint64_t journal_bytes_max = std::uint64_t{1} << 30;

constexpr std::array<std::pair<Kind, const char*>, 7> kind_names{{{Kind::run_started, "run_started"},
                                                                  {Kind::stage_placed, "stage_placed"},
                                                                  {Kind::windows_granted, "windows_granted"},
                                                                  {Kind::stage_durable, "stage_durable"},
                                                                  {Kind::run_ends_at, "run_ends_at"},
                                                                  {Kind::run_finished, "run_finished"},
                                                                  {Kind::run_failed, "run_failed"}}};

std::string name_of(Kind kind) {
  for (const auto& [known, name] : kind_names) {
    if (known == kind) return name;
  }
  throw std::logic_error("a journal record is of a kind that has no name");
}

std::string check_of(std::string_view object) {
  return sha256_of(object).substr(0, check_digits);
}

std::string line_of(const JournalRecord& record) {
  const std::string object = Json{
      {"kind", name_of(record.kind)},
      {"stage", record.stage.value},
      {"window", record.window.value},
      {"text", record.text}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return object + '\t' + check_of(object) + '\n';
}

/// None: the line is damaged.
std::optional<JournalRecord> record_of(std::string_view line) {
  const std::size_t tab = line.rfind('\t');
  if (tab == std::string_view::npos || line.substr(tab + 1) != check_of(line.substr(0, tab))) {
    return std::nullopt;
  }
  const Json object = Json::parse(line.substr(0, tab), nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const std::string kind = object.value("kind", "");
  for (const auto& [known, name] : kind_names) {
    if (kind != name) continue;
    return JournalRecord{known, StageIndex{object.value("stage", std::uint64_t{0})},
                         WindowIndex{object.value("window", std::uint64_t{0})}, object.value("text", "")};
  }
  return std::nullopt;
}

class FileJournal final : public Journal {
 public:
  FileJournal(std::filesystem::path file, std::vector<JournalRecord> records)
      : file_(std::move(file)),
        records_(std::move(records)),
        descriptor_(open_file(file_, O_WRONLY | O_APPEND | O_CREAT)) {
    if (descriptor_.number() < 0) fail();
    sync_folder(file_.parent_path());
  }

  void append(const JournalRecord& record) override {
    const std::string line = line_of(record);
    std::string_view left = line;
    while (!left.empty()) {
      const ssize_t written = write_some(descriptor_.number(), file_, left);
      if (written < 0) fail();
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    if (sync_descriptor(descriptor_.number(), file_) < 0) fail();
    records_.push_back(record);
  }

  [[nodiscard]] std::vector<JournalRecord> records() const override { return records_; }

 private:
  [[noreturn]] void fail() const {
    throw RunError(file_.string() + ": cannot be written to: " + std::strerror(errno));
  }

  std::filesystem::path file_;
  std::vector<JournalRecord> records_;
  Descriptor descriptor_;
};

}  // namespace

JournalContent read_journal(const std::filesystem::path& file) {
  JournalContent content;
  if (!std::filesystem::exists(file)) return content;
  const std::string text = read_file(file, journal_bytes_max);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t end = text.find('\n', begin);
    const bool last = end == std::string::npos || end + 1 == text.size();
    const auto record = end == std::string::npos
                            ? std::nullopt
                            : record_of(std::string_view(text).substr(begin, end - begin));
    if (record) {
      content.records.push_back(*record);
    } else if (last) {
      content.torn = true;
    } else {
      throw InputError(file.string(),
                       "line " + std::to_string(number) + " is damaged: its checksum is another");
    }
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return content;
}

std::unique_ptr<Journal> open_journal(const std::filesystem::path& file) {
  JournalContent content = read_journal(file);
  if (content.torn) {
    std::string whole;
    for (const JournalRecord& record : content.records) whole += line_of(record);
    write_file_durably(file, whole);
  }
  return std::make_unique<FileJournal>(file, std::move(content.records));
}

}  // namespace zerolock
