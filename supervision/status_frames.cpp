#include "supervision/status_frames.hpp"

#include <cstddef>
#include <vector>

namespace zerolock {

Frame status_request_frame() {
  return {FrameType::request, {}, {}};
}

Frame status_frame(const RunStatus& status) {
  // Names and addresses are what other machines say they are; JSON is UTF-8 all the same.
  const std::string text =
      to_json(status).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {FrameType::part, std::vector<std::byte>(bytes, bytes + text.size()), {}};
}

RunStatus read_status(const Frame& frame) {
  return run_status_from({reinterpret_cast<const char*>(frame.metadata.data()), frame.metadata.size()});
}

ConnectionOptions watcher_options() {
  ConnectionOptions options;
  options.bounds.allow(FrameType::request, 0);
  options.send_queue_bytes = 2 * std::size_t{status_bytes_max};
  return options;
}

ConnectionOptions watched_options() {
  ConnectionOptions options;
  options.bounds.allow(FrameType::part, status_bytes_max);
  return options;
}

}  // namespace zerolock
