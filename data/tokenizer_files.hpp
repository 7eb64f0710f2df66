#pragma once
/// The files in which a tokenizer comes with its model.

#include <filesystem>

namespace zerolock {

/// Puts the tokenizer of a model (a folder, or a GGUF file of byte-pair kind) into `folder`: copies of the
/// files that are there, or a tokenizer.json and tokenizer_config.json made from the GGUF file. Throws
/// InputError if the model has none or it cannot be written as such files, RunError if they cannot be
/// written.
void copy_tokenizer(const std::filesystem::path& model, const std::filesystem::path& folder);

}  // namespace zerolock
