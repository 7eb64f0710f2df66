#include "data/tokenizer_files.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "data/byte_pair_tokenizer.hpp"
#include "data/gguf_tokens.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"

namespace zerolock {
namespace {

namespace fs = std::filesystem;

/// Everything that Tokenizer::open and transformers look at.
constexpr const char* names[] = {"tokenizer.json",    "tokenizer.model",         "tokenizer_config.json",
                                 "added_tokens.json", "special_tokens_map.json", "vocab.json",
                                 "merges.txt",        "chat_template.jinja",     "generation_config.json"};

void write(const fs::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) throw RunError(file.string() + ": cannot be written");
}

void copy_files(const fs::path& model, const fs::path& folder) {
  for (const char* name : names) {
    std::error_code error;
    if (!fs::exists(model / name, error)) continue;
    fs::copy_file(model / name, folder / name, error);
    if (error) throw RunError((folder / name).string() + ": cannot be written: " + error.message());
  }
}

void write_gguf_tokenizer(const fs::path& model, const fs::path& folder) {
  const auto file = GgufFile::open(model);
  const std::string kind = file->optional_string("tokenizer.ggml.model").value_or("none");
  if (kind != "gpt2") {
    throw InputError(model.string(), "its tokenizer (" + kind +
                                         ") cannot be written as a tokenizer.json; only byte-pair ones can");
  }
  write(folder / "tokenizer.json", byte_pair_json_of_gguf(*file, model.string()));
  const GgufTokens tokens = read_gguf_tokens(*file, model.string());
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (tokens.bos) config["bos_token"] = tokens.texts.at(static_cast<std::size_t>(*tokens.bos));
  if (tokens.eos) config["eos_token"] = tokens.texts.at(static_cast<std::size_t>(*tokens.eos));
  if (tokens.chat_template) config["chat_template"] = *tokens.chat_template;
  write(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace

void copy_tokenizer(const fs::path& model, const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(model, error)) return copy_files(model, folder);
  write_gguf_tokenizer(model, folder);
}

}  // namespace zerolock
