#include "tensors/files/part_record.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tensors/base/sha256.hpp"
#include "tensors/files/durable_file.hpp"

namespace zerolock {

PartRecord read_part_record(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::size_t digits = 64;
  if (text.size() < digits) return {};
  const std::string lines = text.substr(0, text.size() - digits);
  if (text.substr(lines.size()) != sha256_of(lines)) return {};

  PartRecord record;
  std::istringstream stream(lines);
  ModelPart part;
  while (stream >> part.file >> part.offset >> part.length >> part.sha256) {
    record[{part.file, part.offset}] = part;
  }
  return record;
}

void write_part_record(const std::filesystem::path& file, const PartRecord& record) {
  std::string lines;
  for (const auto& [place, part] : record) {
    lines += std::to_string(part.file) + ' ' + std::to_string(part.offset) + ' ' +
             std::to_string(part.length) + ' ' + part.sha256 + '\n';
  }
  write_file_durably(file, lines + sha256_of(lines));
}

}  // namespace zerolock
