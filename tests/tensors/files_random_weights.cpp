#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "tensors/files/model_files.hpp"
#include "tensors/files/random_weights.hpp"
#include "tensors/files/safetensors.hpp"
#include "tests/tensors/files_support.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.family = ModelFamily::qwen2;
  config.query_key_value_bias = true;
  config.layers = 2;
  config.width = 256;
  config.heads = 4;
  config.key_value_heads = 2;
  config.head_dimension = 64;
  config.feed_forward_width = 512;
  config.vocabulary = 1000;
  config.context_length = 64;
  return config;
}

TEST_CASE("random weights have the shapes and the spread asked for, and the same bytes again", "[random]") {
  const test::TemporaryFolder folder;
  const ModelConfig config = small_config();
  write_random_weights(folder.path() / "one", config, 0.03, 5);
  write_random_weights(folder.path() / "again", config, 0.03, 5);
  write_random_weights(folder.path() / "other", config, 0.03, 6);
  const std::string bytes = test::read_bytes(folder.path() / "one");
  REQUIRE(bytes == test::read_bytes(folder.path() / "again"));
  REQUIRE(bytes != test::read_bytes(folder.path() / "other"));

  const auto file = SafetensorsFile::open(folder.path() / "one");
  std::uint64_t stored = 0;
  for (const auto& [name, shape] : model_tensor_shapes(config)) {
    INFO(name);
    const StoredTensor& tensor = file->tensor(name);
    REQUIRE(tensor.shape() == shape);
    REQUIRE(tensor.format() == StorageFormat::bf16);
    stored += tensor.stored_bytes();
    const at::Tensor values = tensor.expand(at::kDouble);
    if (name.ends_with("norm.weight")) {
      REQUIRE(values.eq(1).all().item<bool>());
    } else if (values.numel() > 10000) {
      // Five standard errors of either, for n independent draws.
      const double count = static_cast<double>(values.numel());
      REQUIRE(std::abs(values.mean().item<double>()) < 5 * 0.03 / std::sqrt(count));
      REQUIRE(std::abs(values.std().item<double>() / 0.03 - 1) < 5 / std::sqrt(2 * count) + 1e-3);
      REQUIRE(values.abs().max().item<double>() < 0.03 * 4.5);
    }
  }
  REQUIRE(stored == random_weights_bytes(config));
  REQUIRE(file->tensors().size() == model_tensor_shapes(config).size());
  REQUIRE_FALSE(file->tensor("model.layers.0.mlp.up_proj.weight")
                    .expand()
                    .equal(file->tensor("model.layers.1.mlp.up_proj.weight").expand()));
}

TEST_CASE("a tensor of a mapped file can be released and converted without changing", "[random]") {
  const test::TemporaryFolder folder;
  const at::Tensor values =
      at::arange(3000 * 512, at::kFloat).remainder(977).sub(400).div(31).view({3000, 512});
  write_safetensors(folder.path() / "wide", {{"w", values}, {"v", at::arange(7, at::kFloat)}});
  const auto file = SafetensorsFile::open(folder.path() / "wide");
  const StoredTensor mapped = file->tensor("w").renamed("another");
  REQUIRE(mapped.name() == "another");
  REQUIRE(mapped.expand().equal(values));
  mapped.release();
  REQUIRE(mapped.expand().equal(values));
  REQUIRE(file->tensor("v").expand().equal(at::arange(7, at::kFloat)));
  for (const StorageFormat format : {StorageFormat::q8_0, StorageFormat::q4_1, StorageFormat::bf16}) {
    const StoredTensor from_file = mapped.converted(format);
    const StoredTensor from_memory = stored("w", values).converted(format);
    REQUIRE(from_file.stored_bytes() == from_memory.stored_bytes());
    REQUIRE(std::memcmp(from_file.data(), from_memory.data(), from_file.stored_bytes()) == 0);
  }
  // Memory that is no file's stays as it is.
  const StoredTensor in_memory = stored("w", values);
  in_memory.release();
  REQUIRE(in_memory.expand().equal(values));
}

}  // namespace
}  // namespace zerolock
