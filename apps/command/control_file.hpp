#pragma once
/// How the owner of a run's folder reaches the run's coordinator: a file that is there while it listens.

#include <filesystem>
#include <string>

#include "transport/address.hpp"

namespace zerolock {

/// Where a coordinator of this machine listens, and the secret of those who may speak to it.
struct ControlPoint {
  Address address;
  std::string token;
};

/// Writes the file, for its owner's eyes alone, and removes it at the end of its scope. A process that is
/// killed leaves it behind: nobody listens there then.
class ControlFile {
 public:
  /// Throws RunError if it cannot be written.
  ControlFile(std::filesystem::path file, const ControlPoint& point);
  ~ControlFile();
  ControlFile(const ControlFile&) = delete;
  ControlFile& operator=(const ControlFile&) = delete;

 private:
  std::filesystem::path file_;
};

/// Throws InputError of one line if no coordinator has left word there, or what is there makes no sense.
ControlPoint read_control_file(const std::filesystem::path& file);

}  // namespace zerolock
