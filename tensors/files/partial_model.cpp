#include "tensors/files/partial_model.hpp"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tensors/files/descriptor.hpp"
#include "tensors/files/durable_file.hpp"
#include "tensors/files/part_record.hpp"
#include "tensors/files/tensor_places.hpp"

namespace zerolock {
namespace {

constexpr const char* files_folder = "model";
constexpr const char* record_file = "complete";
constexpr const char* lock_file = "lock";
/// Noting parts brings them to disk first, so it is not done for each.
constexpr std::uint64_t record_step_bytes = std::uint64_t{64} << 20U;

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw RunError(file.string() + ": " + what + ": " +
                 std::error_code(errno, std::generic_category()).message());
}

/// Keeps other processes, and other PartialModels of this one, from the record.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder) : file_(folder / lock_file, O_RDWR | O_CREAT) {
    if (file_.number() < 0) fail(folder / lock_file, "cannot be opened");
    while (::flock(file_.number(), LOCK_EX) != 0) {
      if (errno != EINTR) fail(folder / lock_file, "cannot be locked");
    }
  }

 private:
  Descriptor file_;  // closing it unlocks
};

/// Tells models apart that have the same content in other files: one file or shards, another order.
std::string layout_name(const ModelManifest& manifest) {
  constexpr std::size_t digits = 16;
  Sha256 hash;
  hash.update(manifest.gguf ? "gguf\n" : "folder\n");
  for (const ModelPart& part : manifest.parts) {
    if (part.offset != 0) continue;
    const ModelFileSize& file = manifest.files.at(part.file);
    hash.update(file.name + " " + std::to_string(file.bytes) + " " + part.sha256 + "\n");
  }
  return hash.finish().substr(0, digits);
}

std::pair<std::uint64_t, std::uint64_t> key_of(const ModelPart& part) {
  return {part.file, part.offset};
}

/// Whether parts, which are in order, hold all of these bytes.
bool covered(const std::vector<ModelPart>& parts, const TensorPlace& place) {
  std::uint64_t position = place.offset;
  const std::uint64_t end = place.offset + place.length;
  for (auto part = std::partition_point(parts.begin(), parts.end(),
                                        [&](const ModelPart& candidate) {
                                          return candidate.file < place.file ||
                                                 (candidate.file == place.file &&
                                                  candidate.offset + candidate.length <= place.offset);
                                        });
       position < end; ++part) {
    if (part == parts.end() || part->file != place.file || part->offset > position) return false;
    position = part->offset + part->length;
  }
  return true;
}

/// A model of which some tensors were not fetched.
class FetchedModel final : public ModelFiles {
 public:
  FetchedModel(std::shared_ptr<const ModelFiles> files, const ModelManifest& manifest)
      : files_(std::move(files)), content_hash_(manifest.content_hash) {
    const TensorPlaces places = find_tensor_places(*files_);
    for (const std::string& name : files_->names()) {
      if (covered(manifest.parts, places.tensors.at(name))) names_.insert(name);
    }
  }

  const ModelConfig& config() const override { return files_->config(); }
  const std::filesystem::path& path() const override { return files_->path(); }
  bool contains(const std::string& name) const override { return names_.contains(name); }
  std::vector<std::string> names() const override { return {names_.begin(), names_.end()}; }
  std::shared_ptr<const GgufFile> gguf() const override { return files_->gguf(); }
  std::string content_hash() const override { return content_hash_; }

  StoredTensor tensor(const std::string& name) const override {
    if (!contains(name)) throw InputError(path().string(), "has no tensor " + name + ": it was not fetched");
    return files_->tensor(name);
  }

 private:
  std::shared_ptr<const ModelFiles> files_;
  std::string content_hash_;
  std::set<std::string> names_;
};

}  // namespace

PartialModel::PartialModel(const std::filesystem::path& cache, ModelManifest manifest)
    : manifest_(std::move(manifest)), folder_(cache / manifest_.content_hash / layout_name(manifest_)) {
  make_folder_durably(folder_ / files_folder);
  create_files();
  find_parts_in_place();
  check_space();
}

std::filesystem::path PartialModel::path() const {
  return manifest_.gguf ? folder_ / files_folder / gguf_file_name : folder_ / files_folder;
}

void PartialModel::create_files() {
  const FolderLock lock(folder_);
  for (const ModelFileSize& wanted : manifest_.files) {
    const std::filesystem::path file = folder_ / files_folder / wanted.name;
    std::error_code error;
    if (std::filesystem::file_size(file, error) == wanted.bytes && !error) continue;
    // The record speaks of a file that is no longer the same. What is left of it is recognised by its hashes.
    if (::unlink((folder_ / record_file).c_str()) != 0 && errno != ENOENT) {
      fail(folder_ / record_file, "cannot be removed");
    }
    if (!std::filesystem::exists(file)) write_file_durably(file, "");
    std::filesystem::resize_file(file, wanted.bytes, error);
    if (error) throw RunError(file.string() + ": cannot have its full size: " + error.message());
  }
}

void PartialModel::find_parts_in_place() {
  PartRecord known;
  {
    const FolderLock lock(folder_);
    known = read_part_record(folder_ / record_file);
  }
  for (std::size_t i = 0; i < manifest_.parts.size(); ++i) {
    const ModelPart& part = manifest_.parts[i];
    const auto found = known.find(key_of(part));
    if (found != known.end() && found->second == part) continue;
    if (is_in_place(part)) {
      unsynced_.insert(part.file);
    } else {
      missing_.insert(i);
    }
  }
  if (!unsynced_.empty()) record();
}

void PartialModel::check_space() const {
  std::uint64_t needed = 0;
  for (const std::size_t part : missing_) needed += manifest_.parts[part].length;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder_, error);
  if (error) throw RunError(folder_.string() + ": its free space cannot be found: " + error.message());
  if (space.available < needed) {
    throw RunError(folder_.string() + ": has room for " + std::to_string(space.available) +
                   " bytes, the model's missing parts have " + std::to_string(needed));
  }
}

std::vector<std::size_t> PartialModel::missing() const {
  const std::lock_guard lock(mutex_);
  return {missing_.begin(), missing_.end()};
}

bool PartialModel::is_in_place(const ModelPart& part) const {
  const std::filesystem::path file = folder_ / files_folder / manifest_.files[part.file].name;
  const Descriptor opened(file, O_RDONLY);
  if (opened.number() < 0) fail(file, "cannot be opened");
  // A hole needs no reading. A file system that knows of no holes says that all is data.
  const off_t data = ::lseek(opened.number(), static_cast<off_t>(part.offset), SEEK_DATA);
  const bool hole = data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) >= part.offset + part.length;
  if (hole) return false;
  std::vector<std::byte> bytes(part.length);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pread(opened.number(), bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(part.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(file, "cannot be read");
    if (count == 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return sha256_of(std::span<const std::byte>(bytes)) == part.sha256;
}

void PartialModel::put(std::size_t index, std::span<const std::byte> bytes) {
  if (index >= manifest_.parts.size()) {
    throw InputError("part " + std::to_string(index),
                     "is not one of the manifest's " + std::to_string(manifest_.parts.size()));
  }
  const ModelPart& part = manifest_.parts[index];
  if (bytes.size() != part.length) {
    throw InputError(manifest_.place_of(part), "came as " + std::to_string(bytes.size()) + " bytes");
  }
  if (sha256_of(bytes) != part.sha256) {
    throw InputError(manifest_.place_of(part), "are not the model's: their SHA-256 differs");
  }
  {
    const std::lock_guard lock(mutex_);
    if (!missing_.contains(index)) return;
  }
  const std::filesystem::path file = folder_ / files_folder / manifest_.files[part.file].name;
  const Descriptor opened(file, O_WRONLY);
  if (opened.number() < 0) fail(file, "cannot be opened");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pwrite(opened.number(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(part.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(file, "cannot be written");
    done += static_cast<std::size_t>(count);
  }
  const std::lock_guard lock(mutex_);
  unsynced_.insert(part.file);
  unrecorded_bytes_ += missing_.erase(index) * part.length;
  if (missing_.empty() || unrecorded_bytes_ >= record_step_bytes) record();
}

void PartialModel::verify() {
  const std::lock_guard lock(mutex_);
  std::set<std::size_t> damaged;
  for (std::size_t i = 0; i < manifest_.parts.size(); ++i) {
    if (!missing_.contains(i) && !is_in_place(manifest_.parts[i])) damaged.insert(i);
  }
  if (damaged.empty()) return;
  missing_.insert(damaged.begin(), damaged.end());
  record(damaged);
}

void PartialModel::record(const std::set<std::size_t>& damaged) {
  for (const std::uint64_t index : unsynced_) {
    const std::filesystem::path file = folder_ / files_folder / manifest_.files[index].name;
    const Descriptor opened(file, O_RDONLY);
    if (opened.number() < 0 || ::fdatasync(opened.number()) != 0) fail(file, "cannot be brought to disk");
  }
  const FolderLock lock(folder_);
  PartRecord known = read_part_record(folder_ / record_file);
  for (const std::size_t part : damaged) known.erase(key_of(manifest_.parts[part]));
  for (std::size_t i = 0; i < manifest_.parts.size(); ++i) {
    // Parts that are missing here may have come to another process.
    if (!missing_.contains(i)) known[key_of(manifest_.parts[i])] = manifest_.parts[i];
  }
  write_part_record(folder_ / record_file, known);
  unsynced_.clear();
  unrecorded_bytes_ = 0;
}

std::shared_ptr<const ModelFiles> PartialModel::open() const {
  ZEROLOCK_INVARIANT(missing().empty(), "a model opens when all its parts are there");
  return std::make_shared<FetchedModel>(ModelFiles::open(path()), manifest_);
}

}  // namespace zerolock
