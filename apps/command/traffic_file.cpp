#include "apps/command/traffic_file.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::array kinds{TrafficItem::Kind::entry, TrafficItem::Kind::state_copied,
                           TrafficItem::Kind::state_given};

TrafficRecord record_from(const nlohmann::json& json, const std::string& where) {
  try {
    TrafficRecord record;
    record.time = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(json.at("nanoseconds").get<std::int64_t>()));
    const auto name = json.at("what").get<std::string>();
    bool known = false;
    for (const TrafficItem::Kind kind : kinds) {
      if (to_string(kind) != name) continue;
      record.item.kind = kind;
      known = true;
    }
    if (!known) throw InputError(where, "'" + name + "' is no kind of traffic");
    record.item.stage = StageIndex{json.at("stage").get<std::uint64_t>()};
    record.item.position = {WindowIndex{json.at("window").get<std::uint64_t>()},
                            json.at("micro_batch").get<std::uint64_t>()};
    record.item.payload_bytes = json.at("payload_bytes").get<std::uint64_t>();
    record.item.wire_bytes = json.at("wire_bytes").get<std::uint64_t>();
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(where, std::string("is no line of traffic: ") + error.what());
  }
}

}  // namespace

TrafficFile::TrafficFile(const std::filesystem::path& file)
    : stream_(file, std::ios::binary | std::ios::app) {
  if (!stream_) throw InputError(file.string(), "cannot be written");
}

void TrafficFile::add(const TrafficItem& item) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const nlohmann::ordered_json line = {
      {"nanoseconds", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()},
      {"what", std::string(to_string(item.kind))},
      {"stage", item.stage.value},
      {"window", item.position.window.value},
      {"micro_batch", item.position.micro_batch},
      {"payload_bytes", item.payload_bytes},
      {"wire_bytes", item.wire_bytes}};
  const std::lock_guard lock(mutex_);
  stream_ << line.dump() + "\n" << std::flush;
}

std::vector<TrafficRecord> read_traffic(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file.string(), "cannot be read");
  std::vector<TrafficRecord> records;
  std::string line;
  for (std::uint64_t number = 1; std::getline(stream, line); ++number) {
    const bool cut_off = stream.eof();
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() && cut_off) break;
    records.push_back(record_from(json, file.string() + " line " + std::to_string(number)));
  }
  return records;
}

}  // namespace zerolock
