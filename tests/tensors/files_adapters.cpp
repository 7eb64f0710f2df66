#include <ATen/ATen.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "tensors/base/error.hpp"
#include "tensors/files/adapter_files.hpp"
#include "tests/tensors/files_support.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::TemporaryFolder;

json read_json(const std::filesystem::path& file) {
  return json::parse(test::read_bytes(file));
}

std::shared_ptr<const ModelFiles> tiny_llama() {
  return ModelFiles::open(test::fixture("models/tiny-llama"));
}

const std::string first_key = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

TEST_CASE("adapters that PEFT made are read", "[adapters]") {
  const auto model = tiny_llama();
  const Adapter qv = read_adapter(test::fixture("models/tiny-llama/adapters/qv"), *model);
  REQUIRE(qv.settings.rank == 4);
  REQUIRE(qv.settings.alpha == 16.0);
  REQUIRE(qv.settings.scale() == 4.0);
  REQUIRE(qv.settings.targets == std::vector<std::string>{"q_proj", "v_proj"});
  REQUIRE(qv.base_model == "../..");
  REQUIRE(qv.base_content_hash == std::nullopt);
  REQUIRE(qv.tensors.size() == 6 * 2 * 2);
  REQUIRE(qv.tensors.at(first_key).sizes() == at::IntArrayRef({4, 64}));
  REQUIRE(read_adapter(test::fixture("models/tiny-llama/adapters/qv-rslora"), *model).settings.scale() ==
          8.0);
  REQUIRE(read_adapter(test::fixture("models/tiny-llama/adapters/all7"), *model).tensors.size() == 6 * 7 * 2);
  const auto llama31 = ModelFiles::open(test::fixture("models/tiny-llama31"));
  REQUIRE(read_adapter(test::fixture("models/tiny-llama31/adapters/qv"), *llama31).tensors.size() == 24);
}

TEST_CASE("a written adapter has PEFT's keys, values and bytes", "[adapters]") {
  const auto model = tiny_llama();
  for (const std::string tag : {"qv", "qv-rslora", "all7"}) {
    INFO(tag);
    const TemporaryFolder folder;
    const std::filesystem::path made = test::fixture("models/tiny-llama/adapters") / tag;
    Adapter adapter = read_adapter(made, *model);
    write_adapter(folder.path() / "plain", adapter);
    REQUIRE(test::read_bytes(folder.path() / "plain/adapter_model.safetensors") ==
            test::read_bytes(made / "adapter_model.safetensors"));
    json config = read_json(folder.path() / "plain/adapter_config.json");
    json expected = read_json(made / "adapter_config.json");
    std::sort(expected["target_modules"].begin(), expected["target_modules"].end());
    for (const auto& [key, value] : config.items()) {
      INFO(key);
      REQUIRE(expected.contains(key));
      REQUIRE(value == expected.at(key));
    }

    adapter.base_content_hash = model->content_hash();
    write_adapter(folder.path() / "noted", adapter);
    const Adapter read = read_adapter(folder.path() / "noted", *model);
    REQUIRE(read.base_content_hash == adapter.base_content_hash);
    REQUIRE(read.settings.rank_stabilised == adapter.settings.rank_stabilised);
    REQUIRE(read.settings.targets == adapter.settings.targets);
    for (const auto& [name, tensor] : adapter.tensors) REQUIRE(read.tensors.at(name).equal(tensor));
    const auto weights = SafetensorsFile::open(folder.path() / "noted/adapter_model.safetensors");
    REQUIRE(weights->metadata().at("format") == "pt");
  }
}

TEST_CASE("an adapter can be written again, with the same bytes", "[adapters]") {
  const TemporaryFolder folder;
  Adapter adapter = read_adapter(test::fixture("models/tiny-llama/adapters/qv"));
  adapter.settings.alpha = 0.5;
  adapter.settings.targets = {"v_proj", "q_proj"};
  write_adapter(folder.path() / "a", adapter);
  const std::string weights = test::read_bytes(folder.path() / "a/adapter_model.safetensors");
  const std::string config = test::read_bytes(folder.path() / "a/adapter_config.json");
  write_adapter(folder.path() / "a", adapter);
  REQUIRE(test::read_bytes(folder.path() / "a/adapter_model.safetensors") == weights);
  REQUIRE(test::read_bytes(folder.path() / "a/adapter_config.json") == config);
  REQUIRE(read_adapter(folder.path() / "a").settings.alpha == 0.5);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "a"))
    files += entry.is_regular_file();
  REQUIRE(files == 2);
  test::write_bytes(folder.path() / "file", "");
  REQUIRE_THROWS_AS(write_adapter(folder.path() / "file", adapter), RunError);
}

/// An adapter folder that a test may break.
struct Copy {
  Copy() { std::filesystem::copy(test::fixture("models/tiny-llama/adapters/qv"), folder.path()); }
  void change_config(const std::string& key, const json& value) const {
    json config = read_json(folder.path() / "adapter_config.json");
    config[key] = value;
    test::write_bytes(folder.path() / "adapter_config.json", config.dump());
  }
  void require_refused(const std::string& file, const std::string& reason) const {
    const auto model = tiny_llama();
    REQUIRE_THROWS_WITH(
        read_adapter(folder.path(), *model),
        Contains((file.empty() ? folder.path() : folder.path() / file).string()) && Contains(reason));
    REQUIRE_THROWS_AS(read_adapter(folder.path(), *model), InputError);
  }
  TemporaryFolder folder;
};

TEST_CASE("adapter configurations that mean something else are refused by key", "[adapters][bad-input]") {
  const std::vector<std::tuple<std::string, json, std::string>> changes{
      {"peft_type", "IA3", "peft_type \"IA3\" is not supported (supported: LORA)"},
      {"peft_type", nullptr, "peft_type is missing"},
      {"bias", "all", "bias \"all\" is not supported"},
      {"use_dora", true, "use_dora is set"},
      {"lora_bias", true, "lora_bias is set"},
      {"fan_in_fan_out", true, "fan_in_fan_out is set"},
      {"modules_to_save", json::array({"lm_head"}), "modules_to_save is set"},
      {"rank_pattern", {{"q_proj", 8}}, "rank_pattern is set"},
      {"alpha_pattern", {{"q_proj", 8}}, "alpha_pattern is set"},
      {"layers_to_transform", json::array({0}), "layers_to_transform is set"},
      {"init_lora_weights", "pissa", "init_lora_weights \"pissa\" is not supported"},
      {"target_modules", json::array({"q_proj", "embed_tokens"}),
       "target_modules \"embed_tokens\" is unknown (supported: q_proj"},
      {"target_modules", "all-linear", "target_modules must be a list of texts"},
      {"target_modules", json::array(), "target_modules names no module"},
      {"r", 0, "r is 0, must be 1 to"},
      {"r", "4", "r must be an integer"},
      {"lora_alpha", nullptr, "lora_alpha is missing"},
  };
  for (const auto& [key, value, reason] : changes) {
    INFO(key << " = " << value.dump());
    const Copy copy;
    copy.change_config(key, value);
    copy.require_refused("adapter_config.json", reason);
  }
}

TEST_CASE("adapters that do not fit the model are refused by their first names", "[adapters][bad-input]") {
  const std::string weights = "adapter_model.safetensors";
  const Copy copy;
  const Adapter good = read_adapter(copy.folder.path());
  const auto with = [&](const std::string& name, const std::optional<at::Tensor>& value) {
    TensorMap tensors = good.tensors;
    if (value) tensors[name] = *value;
    if (!value) tensors.erase(name);
    write_safetensors(copy.folder.path() / weights, tensors, {{"format", "pt"}});
  };
  with(first_key, std::nullopt);
  copy.require_refused(weights, "keys are missing: " + first_key);
  with("base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", at::zeros({4, 64}));
  copy.require_refused(weights,
                       "unexpected keys: base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight");
  with(first_key, at::zeros({4, 65}));
  copy.require_refused(weights, first_key + " has the shape [4, 65], rank 4 and the model ask for [4, 64]");
  with(first_key, good.tensors.at(first_key));
  copy.change_config("r", 8);
  copy.require_refused(weights, "has the shape [4, 64], rank 8 and the model ask for [8, 64]");
  copy.change_config("r", 4);
  copy.change_config("target_modules", json::array({"q_proj", "v_proj", "k_proj"}));
  copy.require_refused(weights,
                       "keys are missing: base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight");
  copy.require_refused(weights, "and 9 more");
  copy.change_config("target_modules", json::array({"q_proj"}));
  copy.require_refused(weights,
                       "unexpected keys: base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight");
}

TEST_CASE("an adapter made for another base is refused", "[adapters][bad-input]") {
  const Copy copy;
  Adapter adapter = read_adapter(copy.folder.path());
  adapter.base_content_hash = std::string(64, 'a');
  write_adapter(copy.folder.path(), adapter);
  copy.require_refused("adapter_model.safetensors", "was made for another base model");
  REQUIRE(read_adapter(copy.folder.path()).base_content_hash == std::string(64, 'a'));
}

TEST_CASE("folders that hold no adapter are refused", "[adapters][bad-input]") {
  const Copy copy;
  test::write_bytes(copy.folder.path() / "adapter_config.json", "{");
  copy.require_refused("adapter_config.json", "is not valid JSON");
  std::filesystem::remove(copy.folder.path() / "adapter_config.json");
  copy.require_refused("", "is not a PEFT adapter folder: it has no adapter_config.json");
  const Copy other;
  std::filesystem::resize_file(other.folder.path() / "adapter_model.safetensors", 1000);
  other.require_refused("adapter_model.safetensors", "the header claims");
  std::filesystem::remove(other.folder.path() / "adapter_model.safetensors");
  other.require_refused("", "it has no adapter_model.safetensors");
}

}  // namespace
}  // namespace zerolock
