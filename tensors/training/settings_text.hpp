#pragma once
/// Training settings as JSON text, for whoever trains in another process.

#include <string>
#include <string_view>

#include "tensors/training/settings.hpp"

namespace zerolock {

/// One line of JSON with every setting, enumerations by the words of the command line, numbers so that they
/// come back bit for bit. Throws InputError naming the key of a number that JSON cannot hold (NaN, infinity).
std::string training_settings_text(const TrainingSettings& settings);

/// Reads that text. All keys must be there, none besides. Throws InputError that begins with `where` and
/// names the key: broken JSON, missing or unknown keys, another type, numbers out of their type's range,
/// unknown words. Whether the values make sense is for TrainingSettings::check.
TrainingSettings training_settings_from_text(const std::string& where, std::string_view text);

}  // namespace zerolock
