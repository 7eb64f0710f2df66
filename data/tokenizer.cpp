#include "data/tokenizer.hpp"

#include "data/byte_pair_tokenizer.hpp"
#include "data/sentence_piece_tokenizer.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"

namespace zerolock {
namespace {

std::shared_ptr<const Tokenizer> read_gguf(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path);
  const std::string where = path.string();
  if (!file->has_metadata("tokenizer.ggml.model")) throw InputError(where, "the file has no tokenizer");
  const std::string model = file->metadata_string("tokenizer.ggml.model");
  if (model == "gpt2") return read_byte_pair_gguf(*file, where);
  if (model == "llama") return read_sentence_piece_gguf(*file, where);
  throw InputError(where, "tokenizer.ggml.model \"" + model + "\" is not supported; supported: gpt2, llama");
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
      if (std::filesystem::exists(path / name, error)) return open(path / name);
    }
    throw InputError(path.string(), "the folder has neither tokenizer.json nor tokenizer.model");
  }
  if (!std::filesystem::exists(path, error))
    throw InputError(path.string(), "there is no such file or folder");
  const std::string ending = path.extension().string();
  if (ending == ".gguf") return read_gguf(path);
  if (ending == ".json") return read_byte_pair_json(path);
  if (ending == ".model") return read_sentence_piece(path);
  throw InputError(path.string(),
                   "not a tokenizer; supported: tokenizer.json, tokenizer.model, a .gguf file or a folder");
}

}  // namespace zerolock
