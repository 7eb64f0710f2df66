/// zerolock export: a model with its adapter merged into the weights, as a Hugging Face folder.

#include <ATen/ATen.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/command/command.hpp"
#include "apps/command/disk_space.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/text_file.hpp"
#include "apps/command/unfinished_folder.hpp"
#include "data/tokenizer_files.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/merged_model.hpp"
#include "tensors/files/model_config_json.hpp"

namespace zerolock {

namespace {

namespace fs = std::filesystem;
using ExportedType = std::optional<at::ScalarType>;

constexpr std::uint64_t other_files_bytes = std::uint64_t{64} << 20U;

/// As transformers writes it.
const char* type_name(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return "float32";
  }
}

class ExportCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "export"; }
  [[nodiscard]] const char* summary() const override {
    return "a model with its adapter merged in, as a Hugging Face folder";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock export --model SmolLM2-135M-Instruct.Q4_1.gguf --adapter runs/topics/adapter --merge "
           "--out merged";
  }

  void declare(OptionTable& table) override {
    table.model("model", model_, model_help);
    table.path("adapter", adapter_, "PEFT adapter folder");
    table.flag("merge", merge_, "add the adapter to the weights; the one thing that export does");
    table.path("out", out_, "folder for the merged model; must not exist");
    table.choice("dtype", type_,
                 {{"keep", std::nullopt}, {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}},
                 "type of the weights; keep: the model's own, fp32 where it is quantised");
    log_.declare(table);
  }

  int run(OptionTable&) override {
    check_options();
    start_log(log_);
    prepare_compute();
    const OpenedModel model = open_model(*model_);
    const Adapter adapter = read_adapter(*adapter_, *model.files);
    const std::uint64_t bytes = merged_weights_bytes(*model.files, type_) + other_files_bytes;
    require_disk_space(*out_, bytes, "--out " + out_->string(), "choose another --out");
    spdlog::info("writing {} MiB to {}", (bytes - other_files_bytes) >> 20U, out_->string());
    // A trailing slash leaves an empty last name.
    const fs::path target = out_->has_filename() ? *out_ : out_->parent_path();
    const UnfinishedFolder folder(target);
    copy_tokenizer(model.files->path(), folder.path());
    write_text_file(folder.path() / "config.json", config_of(*model.files).dump(2) + "\n");
    write_merged_weights(folder.path() / "model.safetensors", *model.files, adapter, type_);
    folder.rename_to(target, UnfinishedFolder::Existing::is_an_error);
    std::printf("%s\n", target.c_str());
    return status_done;
  }

 private:
  void check_options() const {
    if (!model_) throw InputError("--model", std::string("is required: ") + model_help);
    if (!adapter_) throw InputError("--adapter", "is required: a PEFT adapter folder");
    if (!merge_) throw InputError("--merge", "is required: export merges the adapter into the weights");
    if (!out_) throw InputError("--out", "is required: a folder for the merged model");
    std::error_code error;
    if (fs::exists(*out_, error))
      throw InputError("--out " + out_->string(), "is there already; choose another");
  }

  /// The model's own config.json, or one made for it, with the type of the weights.
  [[nodiscard]] nlohmann::ordered_json config_of(const ModelFiles& model) const {
    const fs::path own = model.path() / "config.json";
    std::error_code error;
    nlohmann::ordered_json config = fs::exists(own, error)
                                        ? nlohmann::ordered_json::parse(read_text_file(own))
                                        : hugging_face_config(model.config());
    const char* const key = config.contains("dtype") ? "dtype" : "torch_dtype";
    config[key] = type_name(exported_type(model.tensor("model.layers.0.self_attn.q_proj.weight"), type_));
    return config;
  }

  std::optional<fs::path> model_;
  std::optional<fs::path> adapter_;
  bool merge_ = false;
  std::optional<fs::path> out_;
  ExportedType type_;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_export_command() {
  return std::make_unique<ExportCommand>();
}

}  // namespace zerolock
