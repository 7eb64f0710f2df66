#include "data/byte_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include "data/pre_tokenizer.hpp"
#include "data/unicode.hpp"

namespace zerolock {

std::string byte_tokenizer_json() {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  for (std::size_t byte = 0; byte < byte_alphabet().size(); ++byte) {
    std::string character;
    append_code_point(character, byte_alphabet()[byte]);
    vocabulary[character] = byte;
  }
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const nlohmann::ordered_json model = {{"type", "BPE"},
                                        {"dropout", nullptr},
                                        {"unk_token", nullptr},
                                        {"continuing_subword_prefix", nullptr},
                                        {"end_of_word_suffix", nullptr},
                                        {"fuse_unk", false},
                                        {"byte_fallback", false},
                                        {"vocab", vocabulary},
                                        {"merges", nlohmann::ordered_json::array()}};
  const nlohmann::ordered_json tokenizer = {{"version", "1.0"},
                                            {"truncation", nullptr},
                                            {"padding", nullptr},
                                            {"added_tokens", nlohmann::ordered_json::array()},
                                            {"normalizer", nullptr},
                                            {"pre_tokenizer", byte_level},
                                            {"post_processor", nullptr},
                                            {"decoder", byte_level},
                                            {"model", model}};
  return tokenizer.dump(1) + "\n";
}

}  // namespace zerolock
