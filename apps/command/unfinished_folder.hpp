#pragma once
/// A folder that gets its name only when everything is in it.

#include <filesystem>

namespace zerolock {

/// Made beside its later place, under a name of this process; removed with all that is in it unless it was
/// renamed.
class UnfinishedFolder {
 public:
  /// What becomes of a folder that has the name already.
  enum class Existing { stays, is_an_error };

  /// Throws InputError if it cannot be made.
  explicit UnfinishedFolder(const std::filesystem::path& target);
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Gives it its name. Throws RunError; not where another process was faster and its folder may stay.
  void rename_to(const std::filesystem::path& target, Existing existing) const;

 private:
  std::filesystem::path path_;
};

}  // namespace zerolock
