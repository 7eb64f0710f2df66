#pragma once
/// The receiving side of a model: the parts that a stage needs, in sparse files that open like the whole.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "tensors/files/model_files.hpp"
#include "tensors/files/model_manifest.hpp"

namespace zerolock {

/// A model of which only a manifest's parts are there, in a folder of the cache that all stages and processes
/// of a machine share: CACHE/CONTENT_HASH/LAYOUT/model holds the files in their full size but with holes,
/// `complete` beside it says which parts are in place. A fetch that was killed goes on where it stopped:
/// parts that `complete` does not list, or all if it is damaged, are recognised by their hashes. Thread-safe;
/// several processes may fill the same folder at once.
class PartialModel {
 public:
  /// Makes the folder, or finds what is there. Throws RunError if the disk fails or has less room than the
  /// missing parts need.
  PartialModel(const std::filesystem::path& cache, ModelManifest manifest);
  PartialModel(const PartialModel&) = delete;
  PartialModel& operator=(const PartialModel&) = delete;

  [[nodiscard]] const ModelManifest& manifest() const { return manifest_; }
  /// What ModelFiles::open takes: the folder, or the GGUF file.
  [[nodiscard]] std::filesystem::path path() const;
  /// Indices into the manifest's parts, ascending.
  [[nodiscard]] std::vector<std::size_t> missing() const;

  /// Checks a part's bytes and writes them. Throws InputError naming file and offset, and writes nothing, if
  /// they are not the part's; RunError if the disk fails. A part that is there already is left alone.
  void put(std::size_t part, std::span<const std::byte> bytes);
  /// Reads every part that is in place and forgets those whose bytes have changed since: they are missing
  /// then.
  void verify();

  /// The model, when no part is missing. It holds the tensors of the manifest's parts: others are not
  /// contained, and asking for one throws InputError. Its content hash is the manifest's, since that of the
  /// files would be of holes. Throws InputError if the files are not a model.
  [[nodiscard]] std::shared_ptr<const ModelFiles> open() const;

 private:
  void create_files();
  void find_parts_in_place();
  void check_space() const;
  [[nodiscard]] bool is_in_place(const ModelPart& part) const;
  /// Brings the parts to disk and then notes them; `damaged` ones are no longer noted. Called with mutex_
  /// held.
  void record(const std::set<std::size_t>& damaged = {});

  ModelManifest manifest_;
  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::set<std::size_t> missing_;
  std::set<std::uint64_t> unsynced_;  // files written to since the last record
  std::uint64_t unrecorded_bytes_ = 0;
};

}  // namespace zerolock
