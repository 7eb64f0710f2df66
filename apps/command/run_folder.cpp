#include "apps/command/run_folder.hpp"

#include <unistd.h>

#include <system_error>

#include "apps/command/disk_space.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr int record_format = 1;
constexpr const char* status_names[] = {"running", "stopped", "finished", "failed"};

std::string quoted(const std::filesystem::path& path) {
  return "--out " + path.string();
}

}  // namespace

nlohmann::ordered_json RunRecord::to_json() const {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerRange& range : partition) layers.push_back({range.first, range.last - 1});
  return {{"format", record_format},
          {"run_id", run_id},
          {"command", command},
          {"status", status_names[static_cast<int>(status)]},
          {"model", {{"path", model_path}, {"sha256", model_hash}}},
          {"data", {{"path", data_path}, {"sha256", data_hash}}},
          {"settings", settings},
          {"recipe", recipe},
          {"layers", layers},
          {"last_window", last_window},
          {"durable", durable},
          {"wall_seconds", wall_seconds},
          {"restarts", restarts}};
}

RunRecord RunRecord::from_json(const nlohmann::ordered_json& json, const std::filesystem::path& file) {
  try {
    if (json.at("format").get<int>() != record_format) {
      throw InputError(file.string(), "format " + json.at("format").dump() +
                                          " is not supported; this version has " +
                                          std::to_string(record_format));
    }
    RunRecord record;
    record.run_id = json.at("run_id").get<std::string>();
    record.command = json.value("command", record.command);
    const std::string status = json.at("status").get<std::string>();
    for (int index = 0; index < 4; ++index) {
      if (status == status_names[index]) record.status = static_cast<Status>(index);
    }
    record.model_path = json.at("model").at("path").get<std::string>();
    record.model_hash = json.at("model").at("sha256").get<std::string>();
    record.data_path = json.at("data").at("path").get<std::string>();
    record.data_hash = json.at("data").at("sha256").get<std::string>();
    record.settings = json.at("settings");
    record.recipe = json.value("recipe", nlohmann::ordered_json());
    for (const auto& range : json.at("layers")) {
      record.partition.push_back({range.at(0).get<std::int64_t>(), range.at(1).get<std::int64_t>() + 1});
    }
    record.last_window = json.at("last_window").get<std::uint64_t>();
    record.durable = json.at("durable").get<std::uint64_t>();
    record.wall_seconds = json.at("wall_seconds").get<double>();
    record.restarts = json.at("restarts").get<std::vector<std::uint64_t>>();
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(file.string(), std::string("not a run's record: ") + error.what());
  }
}

// -- Starting in a folder
// -------------------------------------------------------------------------------------------

void RunFolder::check_free(const RunRecord& planned, std::uint64_t bytes) const {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_directory(status)) throw InputError(quoted(path_), "is not a folder");
    if (std::filesystem::exists(record(), error)) {
      const RunRecord earlier = read_record();
      const std::string ways = "; go on with zerolock " + earlier.command + " --resume " + path_.string() +
                               ", or choose another --out";
      if (earlier.status == RunRecord::Status::finished)
        throw InputError(quoted(path_), "holds a finished run" + ways);
      const bool same = earlier.settings == planned.settings && earlier.model_hash == planned.model_hash &&
                        earlier.data_hash == planned.data_hash;
      if (same) throw InputError(quoted(path_), "holds an unfinished run" + ways);
      throw InputError(quoted(path_), "holds a run with another configuration; choose another --out");
    }
    if (!std::filesystem::is_empty(path_, error) || error) {
      throw InputError(quoted(path_), "is not empty and holds no run; choose another --out");
    }
  }
  require_room_for_folder(path_, bytes, quoted(path_), "choose another --out");
}

void RunFolder::create() const {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw InputError(quoted(path_), "cannot be created: " + error.message());
}

std::filesystem::path RunFolder::checkpoints(const std::vector<LayerRange>& partition) const {
  std::string name;
  for (const LayerRange& range : partition) name += (name.empty() ? "" : "-") + std::to_string(range.count());
  return path_ / "checkpoints" / name;
}

RunRecord RunFolder::read_record() const {
  std::error_code error;
  if (!std::filesystem::exists(record(), error)) {
    throw InputError(path_.string(), "holds no run to resume (there is no run.json)");
  }
  const auto json = nlohmann::ordered_json::parse(read_text_file(record()), nullptr, false);
  if (json.is_discarded()) throw InputError(record().string(), "not JSON");
  return RunRecord::from_json(json, record());
}

void RunFolder::write_record(const RunRecord& planned) const {
  write_text_file(record(), planned.to_json().dump(2) + "\n");
}

void check_resumable(const RunRecord& earlier, const RunRecord& planned,
                     const std::filesystem::path& folder) {
  const std::string where = "--resume " + folder.string();
  if (earlier.model_hash != planned.model_hash) {
    throw InputError(where, "the run was made with another model (" + earlier.model_path + ", SHA-256 " +
                                earlier.model_hash.substr(0, 12) + "; now " + planned.model_path + ", " +
                                planned.model_hash.substr(0, 12) + ")");
  }
  for (const auto& [name, value] : earlier.settings.items()) {
    const auto now = planned.settings.find(name);
    if (now == planned.settings.end() || *now != value) {
      throw InputError(where, "the run was made with --" + name + " " + value.dump() + ", not " +
                                  (now == planned.settings.end() ? "without it" : now->dump()));
    }
  }
  for (const auto& [name, value] : planned.settings.items()) {
    if (!earlier.settings.contains(name)) throw InputError(where, "the run was made without --" + name);
  }
  // After the settings: the data's hash also covers how rows were read.
  if (earlier.data_hash != planned.data_hash) {
    throw InputError(where, "the run was made with other data (" + earlier.data_path + ", SHA-256 " +
                                earlier.data_hash.substr(0, 12) + "; now " + planned.data_path + ", " +
                                planned.data_hash.substr(0, 12) + ")");
  }
}

}  // namespace zerolock
