#include "tiny_model.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace zerolock::testing {

namespace {

const std::vector<std::string> words{"up", "no", "hi", "go"};
const std::string blank = "\u0120";  // how byte-level BPE writes a blank

/// Byte-level BPE writes each byte as a visible character; bytes that are none get code points from 256 on.
std::string visible(int byte, int& next_code) {
  const bool is_visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const int code = is_visible ? byte : next_code++;
  std::string text;
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else {
    text.push_back(static_cast<char>(0xC0 | (code >> 6)));
    text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
  return text;
}

std::string tokenizer_json() {
  nlohmann::ordered_json vocabulary = {{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}};
  int next_code = 256;
  for (int byte = 0; byte < 256; ++byte) vocabulary[visible(byte, next_code)] = 3 + byte;
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  int id = 259;
  for (const std::string& word : words) {
    const std::string first = word.substr(0, 1);
    merges.push_back(blank + " " + first);
    vocabulary[blank + first] = id++;
    merges.push_back(blank + first + " " + word.substr(1));
    vocabulary[blank + word] = id++;
  }
  nlohmann::ordered_json added = nlohmann::ordered_json::array();
  for (const auto& [text, token] : {std::pair{"<pad>", 0}, std::pair{"<s>", 1}, std::pair{"</s>", 2}}) {
    added.push_back({{"id", token},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const nlohmann::ordered_json json = {{"version", "1.0"},
                                       {"truncation", nullptr},
                                       {"padding", nullptr},
                                       {"added_tokens", added},
                                       {"normalizer", nullptr},
                                       {"pre_tokenizer", byte_level},
                                       {"post_processor", nullptr},
                                       {"decoder", byte_level},
                                       {"model",
                                        {{"type", "BPE"},
                                         {"dropout", nullptr},
                                         {"unk_token", nullptr},
                                         {"continuing_subword_prefix", nullptr},
                                         {"end_of_word_suffix", nullptr},
                                         {"fuse_unk", false},
                                         {"byte_fallback", false},
                                         {"vocab", vocabulary},
                                         {"merges", merges}}}};
  return json.dump(1);
}

std::string tiny_rows(int count) {
  std::string text = "class,title,description\n";
  for (int row = 0; row < count; ++row) {
    const std::string& word = words[static_cast<std::size_t>(row) % words.size()];
    text += word + ",row " + std::to_string(row) + ",all of " + word + word + "\n";
  }
  return text;
}

}  // namespace

TinyWorkplace::TinyWorkplace(const std::string& model_name) {
  const std::filesystem::path source = std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / "models" / model_name;
  std::filesystem::create_directories(model());
  for (const auto& file : std::filesystem::directory_iterator(source)) {
    if (file.is_regular_file())
      std::filesystem::copy_file(file.path(), path("model") / file.path().filename());
  }
  write_text(path("model") / "tokenizer.json", tokenizer_json());
  write_text(path("rows.csv"), tiny_rows(40));
}

std::vector<std::string> TinyWorkplace::train(const std::string& out,
                                              const std::vector<std::string>& more) const {
  const std::vector<std::string> arguments{"train", "--model",      model(),    "--data",      rows(),
                                           "--out", text_path(out), "--labels", "up,no,hi,go", "--seq",
                                           "64",    "--batch",      "2"};
  const bool recipe_given = std::find(more.begin(), more.end(), "--recipe") != more.end();
  const std::vector<std::string> recipe{"--recipe", "none"};
  return arguments + (recipe_given ? std::vector<std::string>{} : recipe) + more;
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<std::string> operator+(std::vector<std::string> left, const std::vector<std::string>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace zerolock::testing
