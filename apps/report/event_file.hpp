#pragma once
/// TensorBoard's event files: protocol-buffer messages (tensorboard/compat/proto/event.proto) in TFRecord
/// frames, a length and its checksum, the message and its checksum.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace zerolock {

/// A number under its name.
struct EventScalar {
  std::string tag;
  float value = 0;
};

/// Appends to a file of its own, "events.out.tfevents.SECONDS.HOST.PROCESS". Used by one thread at a time.
class EventFile {
 public:
  /// Makes the folder if need be. `first_step`: where this file begins; what earlier files of the folder say
  /// of that step and later ones is then void for TensorBoard. Throws RunError if it cannot be written.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// On disk when it returns, as far as this process can say. Throws RunError.
  void add(std::int64_t step, const std::vector<EventScalar>& scalars);

 private:
  void write(const std::string& message);

  std::filesystem::path file_;
  std::ofstream stream_;
};

/// One frame: what is written for a message.
std::string tf_record(const std::string& message);

}  // namespace zerolock
