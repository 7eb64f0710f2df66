#include "actors/journal_file.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tensors/base/error.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/file_operations.hpp"
#include "tests/temporary_folder.hpp"

using namespace zerolock;
using test::TemporaryFolder;
using Kind = JournalRecord::Kind;

namespace {

const std::vector<JournalRecord> story{
    {Kind::run_started, {}, WindowIndex{0}, "run-1"},
    {Kind::stage_placed, StageIndex{0}, WindowIndex{1}, "node \"a\""},
    {Kind::windows_granted, {}, WindowIndex{3}, ""},
    {Kind::stage_durable, StageIndex{0}, WindowIndex{2}, ""},
    {Kind::stage_placed, StageIndex{0}, WindowIndex{2}, "b"},
};

std::filesystem::path write_story(const TemporaryFolder& folder) {
  const std::filesystem::path file = folder.path() / "journal";
  const auto journal = open_journal(file);
  for (const JournalRecord& record : story) journal->append(record);
  return file;
}

}  // namespace

TEST_CASE("a journal on disk gives back what was kept, and goes on", "[journal]") {
  const TemporaryFolder folder;
  const auto file = write_story(folder);
  CHECK((read_journal(file).records == story));
  const auto again = open_journal(file);
  CHECK((again->records() == story));
  again->append({Kind::run_finished, {}, WindowIndex{3}, ""});
  CHECK(read_journal(file).records.size() == story.size() + 1);
  CHECK(read_journal(folder.path() / "none").records.empty());
}

TEST_CASE("wherever the last record of a journal is cut off, those before it hold", "[journal]") {
  const TemporaryFolder folder;
  const auto file = write_story(folder);
  const std::string whole = read_file(file, 1 << 20);
  const std::size_t last_begins = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t bytes = last_begins + 1; bytes < whole.size(); ++bytes) {
    INFO(bytes << " bytes");
    write_file_durably(file, whole.substr(0, bytes));
    const JournalContent content = read_journal(file);
    REQUIRE(content.torn);
    REQUIRE(content.records.size() == story.size() - 1);
  }
  open_journal(file)->append(story.back());
  CHECK(read_file(file, 1 << 20) == whole);
}

TEST_CASE("a bit that is flipped in a journal is found and its line named", "[journal]") {
  const TemporaryFolder folder;
  const auto file = write_story(folder);
  const std::string whole = read_file(file, 1 << 20);
  const std::size_t end_of_fourth = whole.rfind('\n', whole.size() - 2);
  for (std::size_t at = 0; at < end_of_fourth; at += 7) {
    if (whole[at] == '\n') continue;
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file_durably(file, damaged);
    const auto line = 1 + std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    CHECK_THROWS_WITH(read_journal(file), Catch::Contains("line " + std::to_string(line) + " is damaged"));
    CHECK_THROWS_AS(open_journal(file), InputError);
  }
}

TEST_CASE("a record that could not be kept is not there, and the journal says why", "[journal]") {
  for (int failing = 0;; ++failing) {
    INFO("operation " << failing);
    const TemporaryFolder folder;
    const auto file = write_story(folder);
    int operations = 0;
    bool failed = false;
    {
      const FileFaultScope faults([&](FileOperation, const std::filesystem::path&) {
        return FileVerdict{operations++ == failing ? ENOSPC : 0, 20};
      });
      try {
        open_journal(file)->append({Kind::run_finished, {}, WindowIndex{3}, ""});
      } catch (const RunError& error) {
        failed = true;
        CHECK_THAT(error.what(), Catch::Contains(folder.path().string()));
        CHECK_THAT(error.what(), Catch::Contains("No space left on device"));
      } catch (const InputError& error) {  // it could not be read
        failed = true;
        CHECK_THAT(error.what(), Catch::Contains("No space left on device"));
      }
    }
    const auto records = open_journal(file)->records();
    REQUIRE(records.size() >= story.size());
    CHECK(std::equal(story.begin(), story.end(), records.begin()));
    if (!failed) {
      CHECK(failing > 3);
      break;
    }
  }
}

TEST_CASE("a journal comes to what its latest session has promised and learnt", "[journal]") {
  CHECK_FALSE(replay({}));
  std::vector<JournalRecord> records = story;
  auto state = replay(records);
  REQUIRE(state);
  CHECK(state->session == "run-1");
  CHECK(state->granted == WindowIndex{3});
  CHECK((state->durable == std::map<StageIndex, WindowIndex>{{StageIndex{0}, WindowIndex{2}}}));
  CHECK((state->placed.at(StageIndex{0}) == JournalState::Placed{"b", Placement{2}}));
  CHECK_FALSE(state->over);
  records.push_back({Kind::run_failed, {}, {}, "no spare"});
  CHECK(replay(records)->over);
  records.push_back({Kind::run_started, {}, WindowIndex{2}, "run-2"});
  state = replay(records);
  CHECK(state->before_first == WindowIndex{2});
  CHECK(state->placed.empty());
  CHECK_FALSE(state->over);
}
