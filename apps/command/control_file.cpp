#include "apps/command/control_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/descriptor.hpp"

namespace zerolock {

namespace {

/// Nobody else may read it at any time, so it is made with its final rights and then given its name.
void write_private_file(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path temporary = file.string() + ".new";
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  const Descriptor opened(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const bool written = opened.number() >= 0 && ::write(opened.number(), text.data(), text.size()) ==
                                                   static_cast<ssize_t>(text.size());
  if (!written || ::rename(temporary.c_str(), file.c_str()) != 0) {
    throw RunError(file.string() + ": cannot be written: " + std::strerror(errno));
  }
}

}  // namespace

ControlFile::ControlFile(std::filesystem::path file, const ControlPoint& point) : file_(std::move(file)) {
  const nlohmann::ordered_json json = {{"coordinator", point.address.text()}, {"token", point.token}};
  write_private_file(file_, json.dump() + "\n");
}

ControlFile::~ControlFile() {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

ControlPoint read_control_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw InputError(file.parent_path().string(),
                     "no run with --placement processes is on there; a coordinator's run is reached with "
                     "--coordinator HOST:PORT");
  }
  const auto json = nlohmann::json::parse(read_text_file(file), nullptr, false);
  const bool whole = json.is_object() && json.contains("coordinator") && json["coordinator"].is_string() &&
                     json.contains("token") && json["token"].is_string();
  if (!whole) throw InputError(file.string(), "does not say where a coordinator listens");
  return {parse_address(json["coordinator"].get<std::string>(), file.string()),
          json["token"].get<std::string>()};
}

}  // namespace zerolock
