#include "apps/command/bench_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "apps/command/text_file.hpp"
#include "apps/report/plain_picture.hpp"
#include "apps/report/report_page.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::uintmax_t picture_bytes_max = 4U << 20U;

bool is_bench(const ordered_json& json) {
  return json.is_object() && json.contains("bench") && json["bench"].is_string() && json.contains("rows") &&
         json["rows"].is_array() && (!json.contains("simulated") || json["simulated"].is_boolean());
}

void add_bench(ReportPage& page, const fs::path& file, const ordered_json& json) {
  page.heading(json["bench"].get<std::string>() + " (" + file.filename().string() + ")");
  if (json.value("simulated", false)) page.paragraph("Simulated: no model was computed, or not all of it.");
  for (const auto& row : json["rows"]) {
    if (!row.is_object()) throw InputError(file.string(), "has a row that is not an object");
  }
  page.table(json["rows"]);
  const auto ratios = json.find("ratios");
  if (ratios != json.end() && ratios->is_object() && !ratios->empty()) page.facts(*ratios);
}

std::vector<fs::path> files_of(const fs::path& folder, const char* extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string folder_report(const fs::path& folder) {
  ReportPage page("zerolock bench " + folder.filename().string());
  bool found = false;
  for (const fs::path& file : files_of(folder, ".json")) {
    const auto json = ordered_json::parse(read_text_file(file), nullptr, false);
    if (!is_bench(json)) continue;
    add_bench(page, file, json);
    found = true;
  }
  if (!found) {
    throw InputError(folder.string(), "holds neither a run (run.json) nor results of a bench (*.json)");
  }
  for (const fs::path& file : files_of(folder, ".svg")) {
    if (fs::file_size(file) > picture_bytes_max) continue;
    const std::string svg = read_text_file(file);
    if (!is_plain_picture(svg)) continue;  // anybody may have put it there
    page.heading(file.filename().string());
    page.figure(svg);
  }
  return page.html();
}

}  // namespace

std::string bench_report(const fs::path& file_or_folder) {
  std::error_code error;
  const fs::path path = fs::absolute(file_or_folder).lexically_normal();
  if (fs::is_directory(path, error)) return folder_report(path.has_filename() ? path : path.parent_path());
  const auto json = ordered_json::parse(read_text_file(path), nullptr, false);
  if (!is_bench(json)) {
    throw InputError(file_or_folder.string(), "is not a bench's result (JSON with \"bench\" and \"rows\")");
  }
  ReportPage page("zerolock bench " + json["bench"].get<std::string>());
  add_bench(page, path, json);
  return page.html();
}

}  // namespace zerolock
