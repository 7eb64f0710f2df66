#include "apps/bench/results_folder.hpp"

#include <cstdint>

#include "apps/command/disk_space.hpp"
#include "apps/command/text_file.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t results_bytes = std::uint64_t{4} << 20U;  // far more than a table and its pictures

}  // namespace

void require_results_folder(const std::optional<std::filesystem::path>& out) {
  if (out) require_room_for_folder(*out, results_bytes, "--out " + out->string(), "choose another --out");
}

void keep_results(const std::optional<std::filesystem::path>& out, const BenchResult& result,
                  const std::string& picture) {
  if (!out) return;
  std::filesystem::create_directories(*out);
  write_text_file(*out / (result.bench + ".json"), result.to_json());
  write_text_file(*out / (result.bench + ".svg"), picture);
}

}  // namespace zerolock
