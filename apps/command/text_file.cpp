#include "apps/command/text_file.hpp"

#include <fstream>
#include <sstream>

#include "tensors/base/error.hpp"
#include "tensors/files/durable_file.hpp"

namespace zerolock {

std::string read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw InputError(file.string(), "is a folder, not a file");
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  // An empty file leaves the output stream's fail bit set, which is no error.
  if (!stream.is_open() || stream.bad()) throw InputError(file.string(), "cannot be read");
  return text.str();
}

void write_text_file(const std::filesystem::path& file, std::string_view text) {
  write_file_durably(file, text);
}

}  // namespace zerolock
