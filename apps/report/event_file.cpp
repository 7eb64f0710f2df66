#include "apps/report/event_file.hpp"

#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <system_error>

#include "apps/report/crc32c.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

// -- Protocol Buffers' wire format. LibTorch brings a copy of the library that no other may stand beside.
// --------------------------------------------------------------------------------------------------------

enum class WireKind : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) message.push_back(static_cast<char>(value | 0x80U));
  message.push_back(static_cast<char>(value));
}

void put_key(std::string& message, std::uint32_t field, WireKind kind) {
  put_varint(message, (std::uint64_t{field} << 3U) | static_cast<std::uint64_t>(kind));
}

/// Little-endian, as is every machine this builds on.
template <class Number>
void put_raw(std::string& message, Number value) {
  message.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_integer(std::string& message, std::uint32_t field, std::int64_t value) {
  put_key(message, field, WireKind::varint);
  put_varint(message, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& message, std::uint32_t field, const std::string& bytes) {
  put_key(message, field, WireKind::bytes);
  put_varint(message, bytes.size());
  message += bytes;
}

// Fields of event.proto and summary.proto.
constexpr std::uint32_t event_wall_time = 1;
constexpr std::uint32_t event_step = 2;
constexpr std::uint32_t event_file_version = 3;
constexpr std::uint32_t event_summary = 5;
constexpr std::uint32_t event_session_log = 7;
constexpr std::uint32_t session_log_status = 1;
constexpr std::int64_t session_start = 1;
constexpr std::uint32_t summary_value = 1;
constexpr std::uint32_t value_tag = 1;
constexpr std::uint32_t value_simple_value = 2;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string begun_event(std::int64_t step) {
  std::string event;
  put_key(event, event_wall_time, WireKind::fixed64);
  put_raw(event, seconds_now());
  put_integer(event, event_step, step);
  return event;
}

std::string summary_of(const std::vector<EventScalar>& scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    put_bytes(value, value_tag, scalar.tag);
    put_key(value, value_simple_value, WireKind::fixed32);
    put_raw(value, scalar.value);
    put_bytes(summary, summary_value, value);
  }
  return summary;
}

/// TFRecord's: a sum of data that holds sums is not to look like one.
std::uint32_t masked_sum(std::string_view bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return ((sum >> 15U) | (sum << 17U)) + 0xA282EAD8U;
}

std::filesystem::path file_in(const std::filesystem::path& folder) {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "localhost");
  return folder / ("events.out.tfevents." + std::to_string(static_cast<std::int64_t>(seconds_now())) + "." +
                   host + "." + std::to_string(::getpid()));
}

}  // namespace

std::string tf_record(const std::string& message) {
  std::string record;
  put_raw(record, std::uint64_t{message.size()});
  put_raw(record, masked_sum(record));
  record += message;
  put_raw(record, masked_sum(message));
  return record;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) : file_(file_in(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RunError(folder.string() + ": cannot be made: " + error.message());
  stream_.open(file_, std::ios::binary | std::ios::app);
  std::string version = begun_event(0);
  put_bytes(version, event_file_version, "brain.Event:2");
  write(version);
  std::string start = begun_event(first_step);
  std::string log;
  put_integer(log, session_log_status, session_start);
  put_bytes(start, event_session_log, log);
  write(start);
}

void EventFile::add(std::int64_t step, const std::vector<EventScalar>& scalars) {
  std::string event = begun_event(step);
  put_bytes(event, event_summary, summary_of(scalars));
  write(event);
}

void EventFile::write(const std::string& message) {
  stream_ << tf_record(message) << std::flush;
  if (!stream_) throw RunError(file_.string() + ": cannot be written");
}

}  // namespace zerolock
