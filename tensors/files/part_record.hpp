#pragma once
/// The file that says which parts of a model are in place.

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

#include "tensors/files/model_manifest.hpp"

namespace zerolock {

/// Parts that lie on disk with their hashes, by file and offset.
using PartRecord = std::map<std::pair<std::uint64_t, std::uint64_t>, ModelPart>;

/// What write_part_record wrote: one line a part, then a checksum of these lines. A file that is missing or
/// damaged in any way gives an empty record, because the parts can be recognised by their hashes.
PartRecord read_part_record(const std::filesystem::path& file);

/// Replaces the file as a whole. Throws RunError.
void write_part_record(const std::filesystem::path& file, const PartRecord& record);

}  // namespace zerolock
