#include "apps/command/opened_model.hpp"

#include <ATen/Parallel.h>

#include <string>

#include "apps/command/random_model.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/memory_account.hpp"

namespace zerolock {

void check_vocabulary(const ModelConfig& config, const Tokenizer& tokenizer, const std::string& where) {
  const auto check = [&](const std::string& what, std::int64_t id) {
    if (id >= 0 && id < config.vocabulary) return;
    throw InputError(where, "model and tokenizer do not fit each other: " + what + " " + std::to_string(id) +
                                " is outside the model's vocabulary of " + std::to_string(config.vocabulary));
  };
  check("the tokenizer's largest id", tokenizer.vocabulary() - 1);
  if (tokenizer.bos()) check("the tokenizer's BOS id", *tokenizer.bos());
  if (tokenizer.eos()) check("the tokenizer's EOS id", *tokenizer.eos());
  if (config.bos_token) check("the model's BOS id", *config.bos_token);
  for (const std::int64_t id : config.eos_tokens) check("the model's EOS id", id);
}

OpenedModel open_model(const std::filesystem::path& given) {
  const std::filesystem::path path = model_location(given);
  OpenedModel model;
  model.files = ModelFiles::open(path);
  model.tokenizer = Tokenizer::open(path);
  check_vocabulary(model.files->config(), *model.tokenizer, path.string());
  return model;
}

void prepare_compute() {
  install_memory_accounting();
  at::set_num_threads(1);
}

}  // namespace zerolock
