// Every file operation of checkpoint code fails once, in every way a disk can.

#include <ATen/ATen.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "actors/checkpoint_files.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/file_operations.hpp"
#include "tests/temporary_folder.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using test::TemporaryFolder;

namespace {

constexpr StageIndex stage{2};

StageState state_of(std::uint64_t window) {
  StageState state;
  state.window = WindowIndex{window};
  state.tensors["lora.base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"] =
      at::full({64, 8}, static_cast<double>(window) + 0.5, at::kDouble);
  return state;
}

bool holds(const std::filesystem::path& root, std::uint64_t window) {
  const StageState state = read_checkpoint(root, stage, WindowIndex{window});
  return state.tensors.begin()->second.equal(state_of(window).tensors.begin()->second);
}

/// What the n-th operation meets.
struct DiskFault {
  std::string name;
  int error = 0;
  bool torn = false;  // a write gets a few of its bytes done before the error comes
};

const std::vector<DiskFault> disk_faults{{"a full disk", ENOSPC, false},
                                         {"a broken disk", EIO, false},
                                         {"a disk that becomes full within a write", ENOSPC, true}};

/// Counts operations and lets the n-th one fail.
class NthFails {
 public:
  NthFails(std::uint64_t n, DiskFault fault)
      : n_(n),
        fault_(std::move(fault)),
        scope_([this](FileOperation operation, const auto& file) { return judge(operation, file); }) {}

  [[nodiscard]] bool hit() const { return hit_; }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] FileOperation operation() const { return operation_; }

 private:
  FileVerdict judge(FileOperation operation, const std::filesystem::path& file) {
    if (torn_) {
      torn_ = false;
      return {fault_.error};
    }
    if (++count_ != n_) return {};
    hit_ = true;
    file_ = file;
    operation_ = operation;
    if (!fault_.torn || operation != FileOperation::write) return {fault_.error};
    torn_ = true;
    return {0, 100};
  }

  std::uint64_t n_;
  DiskFault fault_;
  std::uint64_t count_ = 0;
  bool hit_ = false;
  bool torn_ = false;
  std::filesystem::path file_;
  FileOperation operation_ = FileOperation::open;
  FileFaultScope scope_;  // last: it hears of operations from here on
};

std::vector<std::filesystem::path> partial_files(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> found;
  for (const auto& item : std::filesystem::recursive_directory_iterator(root)) {
    if (item.path().extension() == ".partial") found.push_back(item.path());
  }
  return found;
}

/// What went wrong, with the file that met the fault (or the one that it is the temporary file of) and the
/// cause.
void check_message(const std::string& message, const NthFails& fails, int error) {
  std::string file = fails.file().string();
  const std::string partial = ".partial";
  if (file.ends_with(partial)) file.resize(file.size() - partial.size());
  CHECK_THAT(message, Catch::Contains(file));
  CHECK_THAT(message, Catch::Contains(std::error_code(error, std::generic_category()).message()));
}

}  // namespace

TEST_CASE("each file operation of a save fails once: the old state stays, and the next save mends all",
          "[checkpoint]") {
  for (const DiskFault& fault : disk_faults) {
    std::uint64_t failures = 0;
    std::set<FileOperation> met;
    for (std::uint64_t n = 1;; ++n) {
      const TemporaryFolder root;
      write_checkpoint(root.path(), stage, state_of(1));
      // What a process has left that was killed within its write.
      std::filesystem::create_directories(checkpoint_folder(root.path(), stage, WindowIndex{2}));
      std::ofstream(checkpoint_folder(root.path(), stage, WindowIndex{2}) / "state.safetensors.partial")
          << "torn";
      std::string message;
      {
        const NthFails fails(n, fault);
        try {
          write_checkpoint(root.path(), stage, state_of(2));
        } catch (const RunError& error) {
          message = error.what();
        }
        if (!fails.hit()) break;
        INFO(fault.name << ", operation " << n << ": " << to_string(fails.operation()) << " "
                        << fails.file());
        REQUIRE_FALSE(message.empty());
        check_message(message, fails, fault.error);
        met.insert(fails.operation());
        ++failures;
      }
      // Nothing half-written is taken for good: the newest good one is whole, whichever it is.
      CHECK(holds(root.path(), 1));
      const RestoredCheckpoint restored = restore_newest_checkpoint(root.path(), stage, WindowIndex{9});
      REQUIRE(restored.state);
      CHECK(holds(root.path(), restored.state->window.value));
      write_checkpoint(root.path(), stage, state_of(2));
      CHECK(holds(root.path(), 2));
      CHECK(partial_files(root.path()).empty());
    }
    INFO(fault.name);
    CHECK(failures >= 14);
    CHECK((met == std::set{FileOperation::open, FileOperation::write, FileOperation::sync,
                           FileOperation::rename, FileOperation::make_folder, FileOperation::remove}));
  }
}

TEST_CASE("each file operation of the first save fails once: nothing is there, then everything is",
          "[checkpoint]") {
  for (std::uint64_t n = 1;; ++n) {
    const TemporaryFolder folder;
    const auto root = folder.path() / "run" / "checkpoints";
    {
      const NthFails fails(n, disk_faults.front());
      bool failed = false;
      try {
        write_checkpoint(root, stage, state_of(1));
      } catch (const RunError& error) {
        failed = true;
        check_message(error.what(), fails, ENOSPC);
      }
      if (!fails.hit()) break;
      CHECK(failed);
    }
    if (!verify_checkpoint(root, stage, WindowIndex{1}).empty()) {
      CHECK_FALSE(restore_newest_checkpoint(root, stage, WindowIndex{9}).state);
    }
    write_checkpoint(root, stage, state_of(1));
    CHECK(holds(root, 1));
  }
}

TEST_CASE("names that were not brought to disk are, when the same state is saved again", "[checkpoint]") {
  const TemporaryFolder root;
  std::uint64_t syncs = 0;
  write_checkpoint(root.path(), stage, state_of(1));
  const FileFaultScope scope([&syncs](FileOperation operation, const auto&) {
    syncs += operation == FileOperation::sync ? 1 : 0;
    return FileVerdict{};
  });
  write_checkpoint(root.path(), stage, state_of(1));
  CHECK(syncs == 2);
}

TEST_CASE("writes and reads that get little done at a time still do all", "[checkpoint]") {
  const TemporaryFolder root;
  {
    const FileFaultScope scope([](FileOperation, const auto&) { return FileVerdict{0, 7}; });
    write_checkpoint(root.path(), stage, state_of(1));
    CHECK(holds(root.path(), 1));
  }
  CHECK(holds(root.path(), 1));
}

TEST_CASE("a checkpoint that cannot be read is named, and the one before is taken", "[checkpoint]") {
  const TemporaryFolder root;
  write_checkpoint(root.path(), stage, state_of(1));
  write_checkpoint(root.path(), stage, state_of(2));
  for (std::uint64_t n = 1; n <= 4; ++n) {  // manifest and state: open and read
    const NthFails fails(n, disk_faults.at(1));
    const RestoredCheckpoint restored = restore_newest_checkpoint(root.path(), stage, WindowIndex{9});
    REQUIRE(fails.hit());
    REQUIRE(restored.state);
    CHECK(restored.state->window == WindowIndex{1});
    REQUIRE(restored.problems.size() == 1);
    check_message(restored.problems.front(), fails, EIO);
  }
}

TEST_CASE("each removal that retirement makes fails once: nothing is lost, and the next one finishes",
          "[checkpoint]") {
  std::uint64_t failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    const TemporaryFolder root;
    for (std::uint64_t w = 1; w <= 5; ++w) write_checkpoint(root.path(), stage, state_of(w));
    bool failed = false;
    {
      std::uint64_t removals = 0;
      const FileFaultScope scope([&](FileOperation operation, const auto&) {
        return FileVerdict{operation == FileOperation::remove && ++removals == n ? EIO : 0};
      });
      try {
        retire_checkpoints(root.path(), stage, WindowIndex{4});
      } catch (const RunError& error) {
        failed = true;
        CHECK_THAT(error.what(), Catch::Contains("window-"));
      }
      if (removals < n) break;
    }
    CHECK(failed);
    ++failures;
    for (const std::uint64_t kept : {3, 4, 5}) CHECK(holds(root.path(), kept));
    retire_checkpoints(root.path(), stage, WindowIndex{4});
    CHECK((checkpoint_windows(root.path(), stage) ==
           std::vector<WindowIndex>{WindowIndex{3}, WindowIndex{4}, WindowIndex{5}}));
  }
  CHECK(failures == 6);  // two windows: manifest, state, folder
}
