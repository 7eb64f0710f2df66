#pragma once
/// What the tokenizer tests share: recorded values and folders that go away again.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/pre_tokenizer.hpp"
#include "data/tokenizer.hpp"
#include "data/unicode.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/where.hpp"

namespace zerolock {

/// A list of recorded values from tests/fixtures/tokenizer.
inline nlohmann::json tokenizer_fixture(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / "tokenizer" / name;
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("missing fixture " + file.string());
  return nlohmann::json::parse(stream);
}

/// A piece of a .model file as the test writes it.
struct WrittenPiece {
  std::string text;
  float score = 0;
  int type = 1;  // as PieceType counts
};

/// A sentencepiece .model file of type BPE with byte fallback: the special pieces, all bytes, then the given
/// ones.
inline std::string written_sentence_piece_model(const std::vector<WrittenPiece>& pieces) {
  const auto field = [](int number, const std::string& bytes) {  // length-delimited, short
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const auto piece = [&](const WrittenPiece& written) {
    std::string message = field(1, written.text);
    message += static_cast<char>(2 << 3 | 5);
    message.append(reinterpret_cast<const char*>(&written.score), sizeof written.score);
    message += std::string{static_cast<char>(3 << 3), static_cast<char>(written.type)};
    return field(1, message);
  };
  std::string model = piece({"<unk>", 0, 2}) + piece({"<s>", 0, 3}) + piece({"</s>", 0, 3});
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    model += piece({std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0, 6});
  }
  for (const WrittenPiece& written : pieces) model += piece(written);
  const std::string trainer{
      "\x18\x02"  // field 3, model_type: BPE
      "\x98\x02\x01",
      5};                                       // field 35, byte_fallback: true
  const std::string normalizer{"\x20\x00", 2};  // field 4, remove_extra_whitespaces: false
  return model + field(2, trainer) + field(3, normalizer);
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

using test::TemporaryFolder;

}  // namespace zerolock
