#pragma once
/// Where the tests find what is too large for the repository, and what they say where it is missing.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace zerolock {

/// SmolLM2-135M-Instruct as GGUF: named by scripts/test in ZEROLOCK_TEST_MODEL, else in the folder of shared
/// files beside the repository. The path may not exist.
inline std::filesystem::path real_model_file() {
  if (const char* named = std::getenv("ZEROLOCK_TEST_MODEL")) return named;
  return std::filesystem::path(ZEROLOCK_SHARED) / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
}

/// Llama 2's tokenizer.model, where the shared files are. The path may not exist.
inline std::filesystem::path llama2_tokenizer_file() {
  return std::filesystem::path(ZEROLOCK_SHARED) / "data/llama2-tokenizer/tokenizer.model";
}

}  // namespace zerolock
