#pragma once
/// What the tokenizer tests share: recorded values and folders that go away again.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/pre_tokenizer.hpp"
#include "data/tokenizer.hpp"
#include "data/unicode.hpp"

namespace zerolock {

/// A list of recorded values from tests/fixtures/tokenizer.
inline nlohmann::json tokenizer_fixture(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / "tokenizer" / name;
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("missing fixture " + file.string());
  return nlohmann::json::parse(stream);
}

inline std::filesystem::path llama2_model_file() {
  return std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / "tokenizer" / "llama2.model";
}

/// The tokenizer.json of an entry of synthetic.json, with the byte symbols put back that the fixture leaves
/// out.
inline nlohmann::json synthetic_tokenizer(const nlohmann::json& entry) {
  nlohmann::json tokenizer = entry.at("tokenizer");
  nlohmann::json& vocabulary = tokenizer["model"]["vocab"];
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (entry.contains("alphabet")) {
      std::string character;
      append_code_point(character, byte_alphabet()[byte]);
      vocabulary[character] = byte;
    }
    if (entry.contains("bytes")) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      vocabulary[std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">"] = 3 + byte;
    }
  }
  return tokenizer;
}

/// A fresh folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zerolock-tokenizer-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream stream(file, std::ios::binary);
    stream << content;
    if (!stream) throw std::runtime_error("cannot write " + file.string());
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zerolock
