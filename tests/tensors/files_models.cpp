#include <ATen/ATen.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "tensors/base/error.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/files/safetensors.hpp"
#include "tests/tensors/files_support.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::TemporaryFolder;

const std::vector<std::string> tiny_models{"tiny-llama", "tiny-llama-tied", "tiny-llama31", "tiny-qwen2"};

json read_json(const std::filesystem::path& file) {
  return json::parse(test::read_bytes(file));
}

/// tiny-llama as a folder that a test may break.
class Copy {
 public:
  Copy() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(test::fixture("models/tiny-llama") / name, path() / name);
    }
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  void change_config(const std::string& key, const json& value) const {
    json config = read_json(path() / "config.json");
    config[key] = value;
    test::write_bytes(path() / "config.json", config.dump());
  }
  void require_refused(const std::string& file, const std::string& reason) const {
    REQUIRE_THROWS_WITH(ModelFiles::open(path()),
                        Contains((file.empty() ? path() : path() / file).string()) && Contains(reason));
    REQUIRE_THROWS_AS(ModelFiles::open(path()), InputError);
  }

 private:
  TemporaryFolder folder_;
};

/// tiny-llama in two shards with an index.
class ShardedCopy : public Copy {
 public:
  ShardedCopy() {
    std::filesystem::remove(path() / "model.safetensors");
    const auto single = SafetensorsFile::open(test::fixture("models/tiny-llama/model.safetensors"));
    for (const auto& [name, tensor] : single->tensors()) {
      shards[name < "model.layers.3" ? 0 : 1].emplace(name, tensor.expand());
    }
    for (const int i : {0, 1}) {
      for (const auto& [name, tensor] : shards[i]) index["weight_map"][name] = names[i];
    }
    write();
  }
  void write() const {
    for (const int i : {0, 1}) write_safetensors(path() / names[i], shards[i], {{"format", "pt"}});
    test::write_bytes(path() / "model.safetensors.index.json", index.dump());
  }
  const std::string names[2] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  TensorMap shards[2];
  json index;
};

bool same(const ModelConfig& a, const ModelConfig& b) {
  const auto scaling = [](const ModelConfig& c) {
    return c.rope_scaling ? std::vector<double>{c.rope_scaling->factor, c.rope_scaling->low_frequency_factor,
                                                c.rope_scaling->high_frequency_factor,
                                                c.rope_scaling->original_context_length}
                          : std::vector<double>{};
  };
  return a.family == b.family && a.layers == b.layers && a.width == b.width && a.heads == b.heads &&
         a.key_value_heads == b.key_value_heads && a.head_dimension == b.head_dimension &&
         a.feed_forward_width == b.feed_forward_width && a.vocabulary == b.vocabulary &&
         a.context_length == b.context_length && a.rms_norm_epsilon == b.rms_norm_epsilon &&
         a.rope_theta == b.rope_theta && scaling(a) == scaling(b) &&
         a.query_key_value_bias == b.query_key_value_bias && a.tied_embeddings == b.tied_embeddings &&
         a.bos_token == b.bos_token && a.eos_tokens == b.eos_tokens;
}

TEST_CASE("both spellings of config.json mean the same", "[models]") {
  for (const std::string& name : tiny_models) {
    INFO(name);
    const ModelConfig config = read_model_config(test::fixture("models/" + name + "/config.json"));
    REQUIRE(same(config, read_model_config(test::fixture("models/" + name + "/config.alt.json"))));
    REQUIRE(config.layers == 6);
    REQUIRE(config.width == 64);
    REQUIRE(config.heads == 4);
    REQUIRE(config.key_value_heads == 2);
    REQUIRE(config.feed_forward_width == 176);
    REQUIRE(config.vocabulary == 320);
    REQUIRE(config.context_length == 512);
    REQUIRE(config.head_dimension == (name == "tiny-llama-tied" ? 32 : 16));
    REQUIRE(config.tied_embeddings == (name == "tiny-llama-tied"));
    REQUIRE(config.query_key_value_bias == (name == "tiny-qwen2"));
    REQUIRE(config.rms_norm_epsilon == (name == "tiny-qwen2" ? 1e-6 : 1e-5));
    REQUIRE(config.bos_token == 1);
    REQUIRE(config.eos_tokens == std::vector<std::int64_t>{2});
  }
  REQUIRE(read_model_config(test::fixture("models/tiny-llama/config.json")).rope_theta == 1e4);
  REQUIRE(read_model_config(test::fixture("models/tiny-llama-tied/config.json")).rope_theta == 1e5);
  const ModelConfig llama31 = read_model_config(test::fixture("models/tiny-llama31/config.json"));
  REQUIRE(llama31.rope_theta == 5e5);
  REQUIRE(llama31.rope_scaling->factor == 8.0);
  REQUIRE(llama31.rope_scaling->low_frequency_factor == 1.0);
  REQUIRE(llama31.rope_scaling->high_frequency_factor == 4.0);
  REQUIRE(llama31.rope_scaling->original_context_length == 64.0);
}

TEST_CASE("configs that would compute something else are refused by key", "[models][bad-input]") {
  const std::vector<std::tuple<std::string, json, std::string>> changes{
      {"model_type", "mistral", "model_type \"mistral\" is not supported (supported: llama, qwen2)"},
      {"model_type", nullptr, "model_type is missing"},
      {"model_type", 3, "model_type must be a text, is 3"},
      {"hidden_size", nullptr, "hidden_size is missing"},
      {"hidden_size", "64", "hidden_size must be an integer, is \"64\""},
      {"hidden_size", 64.5, "hidden_size must be an integer"},
      {"hidden_size", -64, "the hidden size is -64, must be 1 to"},
      {"hidden_size", 1152921504606846976, "the hidden size is 1152921504606846976, must be 1 to"},
      {"num_hidden_layers", 0, "the number of layers is 0, must be 1 to"},
      {"num_hidden_layers", 18446744073709551615U, "num_hidden_layers is too large"},
      {"num_attention_heads", 3, "2 key/value heads do not divide 3"},
      {"num_key_value_heads", 8, "the number of key/value heads is 8, must be 1 to 4"},
      {"head_dim", 15, "the head dimension 15 is odd"},
      {"vocab_size", 1, "beginning-of-sequence token 1 is not in the vocabulary of 1"},
      {"eos_token_id", json::array({2, 320}), "end-of-sequence token 320"},
      {"eos_token_id", json::array({"2"}), "eos_token_id must hold integers"},
      {"rms_norm_eps", -1e-5, "epsilon is"},
      {"rope_theta", 0, "rope_theta is"},
      {"rope_scaling",
       {{"type", "linear"}, {"factor", 2.0}},
       "type \"linear\" is not supported (supported: default, llama3)"},
      {"rope_scaling", {{"rope_type", "yarn"}}, "rope_type \"yarn\" is not supported"},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8.0}},
       "rope_scaling: low_freq_factor is missing"},
      {"rope_scaling", {{"factor", 8.0}}, "rope_scaling: type is missing"},
      {"rope_parameters",
       {{"rope_type", "dynamic"}},
       "rope_parameters: rope_type \"dynamic\" is not supported"},
      {"attention_bias", true, "attention_bias true is not supported"},
      {"mlp_bias", true, "mlp_bias true is not supported"},
      {"use_sliding_window", true, "use_sliding_window true is not supported"},
      {"layer_types", json::array({"sliding_attention"}), "layer_types \"sliding_attention\""},
      {"hidden_act", "gelu", "hidden_act \"gelu\" is not supported (supported: silu)"},
      {"quantization_config", {{"bits", 4}}, "quantization_config is not supported"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor other than 1"},
      {"tie_word_embeddings", "no", "tie_word_embeddings must be true or false"},
  };
  for (const auto& [key, value, reason] : changes) {
    INFO(key << " = " << value.dump());
    const Copy copy;
    copy.change_config(key, value);
    copy.require_refused("config.json", reason);
  }
}

TEST_CASE("a config.json that is no config is refused", "[models][bad-input]") {
  const Copy copy;
  test::write_bytes(copy.path() / "config.json", "{\"model_type\": ");
  copy.require_refused("config.json", "is not valid JSON");
  test::write_bytes(copy.path() / "config.json", "[1]");
  copy.require_refused("config.json", "is not a JSON object");
  test::write_bytes(copy.path() / "config.json", R"({"vocab_size": 1, "vocab_size": 2})");
  copy.require_refused("config.json", "names \"vocab_size\" twice");
  std::filesystem::remove(copy.path() / "config.json");
  copy.require_refused("", "has no config.json");
  REQUIRE_THROWS_WITH(ModelFiles::open(copy.path() / "nowhere"), Contains("nowhere: does not exist"));
  REQUIRE_THROWS_WITH(ModelFiles::open(copy.path() / "model.safetensors"),
                      Contains("neither a Hugging Face"));
}

/// The folder of a tiny model with its weights: those not kept with the tests lie beside the fixtures'
/// sources.
std::optional<std::filesystem::path> folder_of(const std::string& name) {
  const std::filesystem::path kept = test::fixture("models/" + name);
  if (name != "tiny-llama-tied") return kept;
  const std::filesystem::path shared = std::filesystem::path(ZEROLOCK_SHARED) / "fixtures/models" / name;
  if (std::filesystem::exists(shared)) return shared;
  std::cout << "skipped: the weights of " << name << " are not on this machine\n";
  return std::nullopt;
}

TEST_CASE("the tiny models are read whole", "[models]") {
  // Sums over all values and three values of a matrix, computed from the files' bytes by a few lines of
  // Python.
  struct Golden {
    std::string name;
    std::size_t tensors;
    double sum;
    double sum_of_squares;
    std::vector<double> values;
  };
  const std::vector<Golden> goldens{
      {"tiny-llama",
       57,
       594.1907936801664,
       27077.420154076826,
       {-0.18193937838077545, -0.16764619946479797, 0.006557336542755365}},
      {"tiny-llama-tied",
       56,
       840.2495244022487,
       8039.799747141335,
       {0.07482775300741196, -0.11877793818712234, -0.08587108552455902}},
      {"tiny-llama31",
       57,
       499.354190107435,
       27696.832857244353,
       {-0.0595703125, -0.1083984375, -0.05029296875}},
      {"tiny-qwen2",
       75,
       696.1318463239446,
       27530.337877470876,
       {-0.1778714507818222, 0.16844020783901215, -0.10034182667732239}},
  };
  for (const Golden& golden : goldens) {
    INFO(golden.name);
    const auto folder = folder_of(golden.name);
    if (!folder) continue;
    const auto model = ModelFiles::open(*folder);
    REQUIRE(model->names().size() == golden.tensors);
    REQUIRE(model->gguf() == nullptr);
    double sum = 0, sum_of_squares = 0;
    for (const std::string& name : model->names()) {
      const at::Tensor values = model->tensor(name).expand(at::kDouble);
      sum += values.sum().item<double>();
      sum_of_squares += values.square().sum().item<double>();
    }
    REQUIRE(sum == Approx(golden.sum).epsilon(1e-10));
    REQUIRE(sum_of_squares == Approx(golden.sum_of_squares).epsilon(1e-10));
    const at::Tensor key = model->tensor("model.layers.3.self_attn.k_proj.weight").expand(at::kDouble);
    for (int i = 0; i < 3; ++i)
      REQUIRE(key[1][i].item<double>() == golden.values[static_cast<std::size_t>(i)]);
    REQUIRE(model->head().name() ==
            (golden.name == "tiny-llama-tied" ? "model.embed_tokens.weight" : "lm_head.weight"));
    REQUIRE(model->tensor("model.norm.weight").format() ==
            (golden.name == "tiny-llama31" ? StorageFormat::bf16 : StorageFormat::f32));
    REQUIRE_THROWS_AS(model->tensor("model.layers.6.input_layernorm.weight"), InputError);
  }
}

TEST_CASE("weights that do not fit the config are refused by tensor", "[models][bad-input]") {
  const Copy copy;
  TensorMap tensors;
  const auto whole = SafetensorsFile::open(copy.path() / "model.safetensors");
  for (const auto& [name, tensor] : whole->tensors()) {
    tensors.emplace(name, tensor.expand());
  }
  const auto with = [&](const std::string& name, const std::optional<at::Tensor>& value) {
    TensorMap changed = tensors;
    if (value) changed[name] = *value;
    if (!value) changed.erase(name);
    write_safetensors(copy.path() / "model.safetensors", changed);
  };
  const std::string key = "model.layers.2.self_attn.k_proj.weight";
  with(key, std::nullopt);
  copy.require_refused("", "tensor " + key + " is missing (the config asks for [32, 64])");
  with(key, at::zeros({64, 64}));
  copy.require_refused("", key + " has the shape [64, 64], the config asks for [32, 64]");
  with(key, at::zeros({32, 64}, at::kLong));
  copy.require_refused("", key + " holds integers (i64)");
  with("model.layers.2.self_attn.k_proj.bias", at::zeros({32}));
  copy.require_refused("", "model.layers.2.self_attn.k_proj.bias has no place");
  with("model.layers.2.self_attn.rotary_emb.inv_freq", at::zeros({8}));
  REQUIRE_NOTHROW(ModelFiles::open(copy.path()));
  std::filesystem::remove(copy.path() / "model.safetensors");
  copy.require_refused("", "has no weights: neither model.safetensors nor model.safetensors.index.json");
}

TEST_CASE("sharded weights are read through their index", "[models]") {
  const ShardedCopy copy;
  const auto single = ModelFiles::open(test::fixture("models/tiny-llama"));
  test::write_bytes(copy.path() / "stray.safetensors", "not looked at");
  std::filesystem::copy_file(test::fixture("models/tiny-llama31/model.safetensors"),
                             copy.path() / "model.safetensors");
  const auto model = ModelFiles::open(copy.path());
  REQUIRE(model->names() == single->names());
  REQUIRE(model->content_hash() == single->content_hash());
}

TEST_CASE("shards that disagree with their index are refused", "[models][bad-input]") {
  const std::string index_name = "model.safetensors.index.json";
  const std::string last = "model.norm.weight";
  SECTION("a missing shard") {
    const ShardedCopy copy;
    std::filesystem::remove(copy.path() / copy.names[1]);
    copy.require_refused(copy.names[1], "is missing");
  }
  SECTION("a truncated shard") {
    const ShardedCopy copy;
    std::filesystem::resize_file(copy.path() / copy.names[1],
                                 std::filesystem::file_size(copy.path() / copy.names[1]) - 4);
    copy.require_refused(copy.names[1], "do not lie in the file's");
  }
  SECTION("a tensor that its shard does not hold") {
    ShardedCopy copy;
    copy.index["weight_map"]["model.extra.weight"] = copy.names[0];
    copy.write();
    copy.require_refused(index_name, "model.extra.weight is said to be in " + copy.names[0]);
  }
  SECTION("a tensor in two shards") {
    ShardedCopy copy;
    copy.shards[0].emplace(last, copy.shards[1].at(last));
    copy.write();
    copy.require_refused(copy.names[0], last + ", which " + index_name + " puts into " + copy.names[1]);
  }
  SECTION("a tensor that is not listed") {
    ShardedCopy copy;
    copy.index["weight_map"].erase(last);
    copy.write();
    copy.require_refused(copy.names[1], last + ", which " + index_name + " does not list");
  }
  SECTION("a tensor listed twice") {
    const ShardedCopy copy;
    std::string text = copy.index.dump();
    text.insert(text.find('{', 1) + 1, "\"" + last + "\":\"" + copy.names[0] + "\",");
    test::write_bytes(copy.path() / index_name, text);
    copy.require_refused(index_name, "names \"" + last + "\" twice");
  }
  SECTION("a shard outside the folder, and other nonsense") {
    ShardedCopy copy;
    copy.index["weight_map"][last] = "../elsewhere.safetensors";
    copy.write();
    copy.require_refused(index_name, "not the name of a file in this folder");
    copy.index["weight_map"] = json::object();
    copy.write();
    copy.require_refused(index_name, "lists no tensors");
    copy.index = json::object();
    copy.write();
    copy.require_refused(index_name, "weight_map is missing");
  }
}

TEST_CASE("a model's content hash follows its numbers, not its spelling", "[models]") {
  const std::string hash = ModelFiles::open(test::fixture("models/tiny-llama"))->content_hash();
  REQUIRE(hash.size() == 64);
  const Copy copy;
  std::filesystem::copy_file(test::fixture("models/tiny-llama/config.alt.json"), copy.path() / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  REQUIRE(ModelFiles::open(copy.path())->content_hash() == hash);
  std::string bytes = test::read_bytes(copy.path() / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_bytes(copy.path() / "model.safetensors", bytes);
  REQUIRE(ModelFiles::open(copy.path())->content_hash() != hash);
  const Copy other;
  other.change_config("rope_theta", 10001.0);
  REQUIRE(ModelFiles::open(other.path())->content_hash() != hash);
}

TEST_CASE("random models are seeded and have the asked shape", "[models]") {
  const ModelConfig config = read_model_config(test::fixture("models/tiny-qwen2/config.json"));
  const auto model = make_random_model(config, 5, StorageFormat::f32);
  REQUIRE(model->content_hash() == make_random_model(config, 5, StorageFormat::f32)->content_hash());
  REQUIRE(model->content_hash() != make_random_model(config, 6, StorageFormat::f32)->content_hash());
  REQUIRE(model->names() == ModelFiles::open(test::fixture("models/tiny-qwen2"))->names());
  const at::Tensor embedding = model->tensor("model.embed_tokens.weight").expand();
  REQUIRE(embedding.std().item<double>() == Approx(0.02).epsilon(0.05));
  REQUIRE(model->tensor("model.norm.weight").expand().equal(at::ones({64})));
  const auto brain = make_random_model(config, 5, StorageFormat::bf16);
  REQUIRE(brain->tensor("model.embed_tokens.weight").format() == StorageFormat::bf16);
  REQUIRE(
      brain->tensor("model.embed_tokens.weight").expand(at::kBFloat16).equal(embedding.to(at::kBFloat16)));
  // The feed-forward width of 176 does not fill blocks of 32.
  REQUIRE_THROWS_AS(make_random_model(config, 5, StorageFormat::q8_0), InputError);
}

}  // namespace
}  // namespace zerolock
