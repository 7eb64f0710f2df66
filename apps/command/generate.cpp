/// zerolock generate: writes on from a prompt.

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/command/adapted_model.hpp"
#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/token_sampler.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/sgemm.hpp"

namespace zerolock {

namespace {

/// What came of it.
struct Generated {
  std::vector<TokenId> tokens;
  const char* stopped_by = "max-tokens";  // or "end" or "context"
};

class GenerateCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "generate"; }
  [[nodiscard]] const char* summary() const override { return "write on from a prompt, greedy or sampled"; }
  [[nodiscard]] const char* example() const override {
    return "zerolock generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt \"The capital of France is\" "
           "--max-tokens 20";
  }

  void declare(OptionTable& table) override {
    table.path("config", config_, "TOML file with any of these options",
               OptionTable::Kept::on_command_line_only);
    table.model("model", model_, model_help);
    table.path("adapter", adapter_, "PEFT adapter folder");
    table.text("prompt", prompt_, "text to go on from; empty: from the beginning-of-text token");
    table.integer("max-tokens", max_tokens_, 1, 1'048'576, "tokens to write at most");
    table.real("temperature", sampling_.temperature, {0, 100, false}, "0: always the most likely token");
    table.integer("top-k", sampling_.top_k, 0, 10'000'000,
                  "sample from the k most likely tokens; 0: from all");
    table.real("top-p", sampling_.top_p, {0, 1, true}, "sample from the most likely tokens that make up p");
    table.integer("seed", sampling_.seed, 0, 9'223'372'036'854'775'807ULL, "of the sampling");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable& table) override {
    if (config_) table.read(*config_);
    if (!model_) throw InputError("--model", "is required: a Hugging Face folder or a GGUF file");
    start_log(log_);
    prepare_compute();
    const AdaptedModel model(*model_, adapter_);
    const std::vector<TokenId> prompt = prompt_tokens(model);
    require_fast_sgemm();
    const Generated generated = generate(model, prompt);
    const std::string text = model.opened().tokenizer->decode(generated.tokens, true);
    if (json_) {
      const nlohmann::ordered_json json = {{"prompt_tokens", prompt},
                                           {"tokens", generated.tokens},
                                           {"text", text},
                                           {"stopped_by", generated.stopped_by}};
      std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
      std::printf("%s\n", text.c_str());
    }
    return status_done;
  }

 private:
  [[nodiscard]] std::vector<TokenId> prompt_tokens(const AdaptedModel& model) const {
    const Tokenizer& tokenizer = *model.opened().tokenizer;
    std::vector<TokenId> tokens = tokenizer.encode(prompt_, true);
    if (tokens.empty()) {
      const std::optional<TokenId> bos = tokenizer.bos() ? tokenizer.bos() : model.config().bos_token;
      if (!bos)
        throw InputError("--prompt", "is empty, and the model has no beginning-of-text token to start from");
      tokens.push_back(*bos);
    }
    if (static_cast<std::int64_t>(tokens.size()) >= model.config().context_length) {
      throw InputError("--prompt",
                       "has " + std::to_string(tokens.size()) + " tokens; the model's context is " +
                           std::to_string(model.config().context_length) + ", one of which must be free");
    }
    return tokens;
  }

  [[nodiscard]] Generated generate(const AdaptedModel& adapted, const std::vector<TokenId>& prompt) const {
    const c10::NoGradGuard no_gradient;
    const std::unique_ptr<CausalModel> model = adapted.make();
    std::vector<TokenId> ends = adapted.config().eos_tokens;
    if (adapted.opened().tokenizer->eos()) ends.push_back(*adapted.opened().tokenizer->eos());
    TokenSampler sampler(sampling_);  // sees no rows of an embedding padded above the tokenizer's vocabulary
    KeyValueCache cache = model->make_cache();
    at::Tensor hidden = model->decode(at::tensor(prompt, at::kLong), cache);
    Generated generated;
    while (generated.tokens.size() < max_tokens_) {
      const at::Tensor logits = model->logits(hidden.narrow(0, hidden.size(0) - 1, 1)).flatten();
      const TokenId token = sampler.choose(logits.narrow(0, 0, adapted.opened().tokenizer->vocabulary()));
      if (std::count(ends.begin(), ends.end(), token) > 0) {
        generated.stopped_by = "end";
        break;
      }
      generated.tokens.push_back(token);
      if (cache.rows() >= adapted.config().context_length) {
        generated.stopped_by = "context";
        break;
      }
      if (generated.tokens.size() < max_tokens_)
        hidden = model->decode(at::tensor({token}, at::kLong), cache);
    }
    return generated;
  }

  std::optional<std::filesystem::path> config_;
  std::optional<std::filesystem::path> model_;
  std::optional<std::filesystem::path> adapter_;
  std::string prompt_;
  std::uint64_t max_tokens_ = 64;
  SamplingOptions sampling_;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() {
  return std::make_unique<GenerateCommand>();
}

}  // namespace zerolock
