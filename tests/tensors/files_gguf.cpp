#include <ATen/ATen.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tensors/base/error.hpp"
#include "tensors/files/gguf.hpp"
#include "tensors/files/gguf_model.hpp"
#include "tensors/files/model_files.hpp"
#include "tests/tensors/files_formats.hpp"
#include "tests/tensors/files_gguf_writer.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

using Catch::Matchers::Contains;
using test::gguf_of;
using test::GgufWriter;
using test::TemporaryFolder;

std::shared_ptr<const GgufFile> opened(const TemporaryFolder& folder, const std::string& bytes) {
  test::write_bytes(folder.path() / "made.gguf", bytes);
  return GgufFile::open(folder.path() / "made.gguf");
}

void require_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(opened(folder, bytes), Contains("made.gguf") && Contains(reason));
  REQUIRE_THROWS_AS(opened(folder, bytes), InputError);
}

/// GGUF's number of a format.
std::uint32_t type_number(StorageFormat format) {
  switch (format) {
    case StorageFormat::f32:
      return 0;
    case StorageFormat::f16:
      return 1;
    case StorageFormat::q4_0:
      return 2;
    case StorageFormat::q4_1:
      return 3;
    case StorageFormat::q5_0:
      return 6;
    case StorageFormat::q5_1:
      return 7;
    case StorageFormat::q8_0:
      return 8;
    case StorageFormat::q4_k:
      return 12;
    case StorageFormat::q6_k:
      return 14;
    case StorageFormat::bf16:
      return 30;
    default:
      throw std::logic_error("not a format of GGUF's");
  }
}

TEST_CASE("GGUF metadata keeps its kinds", "[gguf]") {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.add("a.u32", std::uint32_t{7});
  writer.add("a.i8", 1, test::raw(std::int8_t{-3}));
  writer.add("a.u64", 10, test::raw(std::uint64_t{1} << 40));
  writer.add("a.float", 0.25F);
  writer.add("a.double", 12, test::raw(0.1));
  writer.add("a.bool", true);
  writer.add("a.text", "na\xc3\xafve");
  writer.add_texts("a.texts", {"one", "", "three"});
  writer.add_numbers<std::int32_t>("a.integers", 5, {3, -1, 2});
  writer.add_numbers<float>("a.floats", 6, {0.5F, -1.0F});
  for (const std::uint32_t version : {2U, 3U}) {
    writer.version = version;
    const auto file = opened(folder, writer.bytes());
    REQUIRE(file->metadata_integer("a.u32") == 7);
    REQUIRE(file->metadata_integer("a.i8") == -3);
    REQUIRE(file->metadata_integer("a.u64") == std::int64_t{1} << 40);
    REQUIRE(file->metadata_float("a.float") == 0.25);
    REQUIRE(file->metadata_float("a.double") == 0.1);
    REQUIRE(file->metadata_float("a.u32") == 7.0);
    REQUIRE(file->metadata_bool("a.bool"));
    REQUIRE(file->metadata_string("a.text") == "na\xc3\xafve");
    REQUIRE(file->metadata_strings("a.texts") == std::vector<std::string>{"one", "", "three"});
    REQUIRE(file->metadata_integers("a.integers") == std::vector<std::int64_t>{3, -1, 2});
    REQUIRE(file->metadata_floats("a.floats") == std::vector<double>{0.5, -1.0});
    REQUIRE(file->optional_string("a.none") == std::nullopt);
    REQUIRE(file->optional_integer("a.u32") == 7);
    REQUIRE_THROWS_WITH(file->metadata_string("a.none"),
                        Contains("made.gguf") && Contains("a.none is missing"));
    REQUIRE_THROWS_WITH(file->metadata_string("a.u32"), Contains("a.u32 must be a text, is an integer"));
    REQUIRE_THROWS_WITH(file->optional_bool("a.texts"), Contains("must be a boolean, is a list of texts"));
  }
}

TEST_CASE("GGUF tensors of every format are found and expanded", "[gguf]") {
  const TemporaryFolder folder;
  const std::vector<StorageFormat> formats{StorageFormat::f32,  StorageFormat::f16,  StorageFormat::bf16,
                                           StorageFormat::q8_0, StorageFormat::q4_0, StorageFormat::q4_1,
                                           StorageFormat::q5_0, StorageFormat::q5_1, StorageFormat::q4_k,
                                           StorageFormat::q6_k};
  GgufWriter writer;
  for (const StorageFormat format : formats) {
    // Two rows of one block each.
    writer.add_tensor(to_string(format), type_number(format),
                      {static_cast<std::uint64_t>(block_elements(format)), 2}, test::golden_blocks(format));
  }
  const auto file = opened(folder, writer.bytes());
  REQUIRE(file->tensors().size() == formats.size());
  for (const StorageFormat format : formats) {
    const StoredTensor& tensor = file->tensors().at(std::string(to_string(format)));
    REQUIRE(tensor.format() == format);
    REQUIRE(tensor.shape() == std::vector<std::int64_t>{2, block_elements(format)});
    const std::string bytes = test::golden_blocks(format);
    REQUIRE(std::string(reinterpret_cast<const char*>(tensor.data()), tensor.stored_bytes()) == bytes);
  }
}

TEST_CASE("broken GGUF files are refused by name", "[gguf][bad-input]") {
  GgufWriter writer;
  writer.magic = "GGML";
  require_refused(writer.bytes(), "is not a GGUF file");
  require_refused("", "is not a GGUF file");
  writer.magic = "GGUF";
  for (const std::uint32_t version : {1U, 4U, 0x03000000U}) {
    writer.version = version;
    require_refused(writer.bytes(), "GGUF version " + std::to_string(version) + " is not supported");
  }
  const auto with_tensor = [](std::uint32_t type, const std::vector<std::uint64_t>& sizes,
                              std::int64_t offset = -1) {
    GgufWriter made;
    made.add_tensor("t", type, sizes, std::string(128, 'x'), offset);
    return made.bytes();
  };
  require_refused(with_tensor(10, {256}), "tensor t: the type Q2_K is not supported (supported: F32");
  require_refused(with_tensor(777, {256}), "the type number 777 is not supported");
  require_refused(with_tensor(0, {33}), "needs 132 bytes (f32) at offset 0, the file has 128");
  require_refused(with_tensor(0, {8}, 128), "truncated");
  require_refused(with_tensor(0, {8}, 7), "not a multiple of the alignment 32");
  require_refused(with_tensor(8, {33}), "cannot be q8_0, which packs 32");
  require_refused(with_tensor(0, {std::uint64_t{1} << 60}), "too large");
  require_refused(with_tensor(0, {std::uint64_t{1} << 32, std::uint64_t{1} << 32}), "too large");
  require_refused(with_tensor(0, {0, ~std::uint64_t{0}}), "size 0");
  require_refused(with_tensor(0, {1, 1, 1, 1, 1}), "has 5 dimensions");
  require_refused(with_tensor(0, {}), "has 0 dimensions");

  GgufWriter twice;
  twice.add_tensor("t", 0, {8}, std::string(32, 'x'));
  twice.add_tensor("t", 0, {8}, std::string(32, 'x'));
  require_refused(twice.bytes(), "names tensor t twice");
  GgufWriter overlapping;
  overlapping.add_tensor("t", 0, {16}, std::string(64, 'x'));
  overlapping.add_tensor("u", 0, {8}, std::string(32, 'x'), 32);
  require_refused(overlapping.bytes(), "tensor u: overlaps");
  GgufWriter repeated;
  repeated.add("k", true);
  repeated.add("k", true);
  require_refused(repeated.bytes(), "names k twice");
  GgufWriter unknown;
  unknown.add("k", 13, "xxxx");
  require_refused(unknown.bytes(), "k has the unknown value type 13");
  GgufWriter alignment;
  alignment.add("general.alignment", std::uint32_t{12});
  require_refused(alignment.bytes(), "must be a power of two");
}

TEST_CASE("lengths that a GGUF file cannot hold are refused before they are allocated", "[gguf][bad-input]") {
  constexpr std::uint64_t huge = std::uint64_t{1} << 60;
  const std::string start = "GGUF" + test::raw<std::uint32_t>(3);
  require_refused(start + test::raw(huge) + test::raw<std::uint64_t>(0),
                  "claims " + std::to_string(huge) + " tensors");
  require_refused(start + test::raw<std::uint64_t>(0) + test::raw(huge), "metadata entries");
  const std::string one_entry = start + test::raw<std::uint64_t>(0) + test::raw<std::uint64_t>(1);
  require_refused(one_entry + test::raw(huge) + std::string(32, 'k'), "ends within a metadata key");
  const std::string list = one_entry + GgufWriter::text("k") + test::raw<std::uint32_t>(9);
  for (const std::uint32_t type : {0U, 8U, 12U}) {
    require_refused(list + test::raw(type) + test::raw(huge) + std::string(32, 'x'), "in k, only");
  }
  require_refused(list + test::raw<std::uint32_t>(9) + test::raw<std::uint64_t>(1) + std::string(32, 'x'),
                  "array of type 9");
}

TEST_CASE("a GGUF file that is cut anywhere is refused", "[gguf][bad-input]") {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.add("general.name", "x");
  writer.add_texts("list", {"a", "b"});
  writer.add_tensor("t", 0, {8}, std::string(32, 'x'));
  const std::string bytes = writer.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE_THROWS_AS(opened(folder, bytes.substr(0, size)), InputError);
  }
}

TEST_CASE("a GGUF model equals the Hugging Face model it was made from", "[gguf]") {
  const TemporaryFolder folder;
  for (const std::string name : {"tiny-llama", "tiny-qwen2"}) {
    INFO(name);
    const auto original = ModelFiles::open(test::fixture("models/" + name));
    test::write_bytes(folder.path() / "model.gguf",
                      gguf_of(*original, name == "tiny-llama" ? "llama" : "qwen2").bytes());
    const auto model = ModelFiles::open(folder.path() / "model.gguf");
    REQUIRE(model->names() == original->names());
    REQUIRE(model->gguf() != nullptr);
    for (const std::string& tensor : model->names()) {
      INFO(tensor);
      REQUIRE(model->tensor(tensor).expand().equal(original->tensor(tensor).expand()));
    }
    REQUIRE(model->config().family == original->config().family);
    REQUIRE(model->config().query_key_value_bias == original->config().query_key_value_bias);
    REQUIRE(model->config().head_dimension == original->config().head_dimension);
    REQUIRE(model->config().vocabulary == original->config().vocabulary);
    REQUIRE(model->config().rope_theta == original->config().rope_theta);
    REQUIRE(model->config().rms_norm_epsilon == Approx(original->config().rms_norm_epsilon));
    REQUIRE(model->config().bos_token == original->config().bos_token);
    REQUIRE(model->config().eos_tokens == original->config().eos_tokens);
    REQUIRE_FALSE(model->config().tied_embeddings);
    REQUIRE(model->head().name() == "lm_head.weight");
  }
}

TEST_CASE("Llama 3's rope scaling is recognised in GGUF's divisors", "[gguf]") {
  const TemporaryFolder folder;
  const auto original = ModelFiles::open(test::fixture("models/tiny-llama"));
  GgufWriter writer = gguf_of(*original, "llama");
  // theta 1e4, head dimension 16: wavelengths 6.28 to 19869. With an original context of 8192 the first pairs
  // turn more than 4 times (kept), pair 6 (wavelength 6283, 1.3 turns) lies between, pair 7 turns less than
  // once.
  const double turns = 8192.0 / (2.0 * std::acos(-1.0) * 1000.0);
  const double smooth = (turns - 1.0) / 3.0;
  const double between = 1.0 / ((1.0 - smooth) / 32.0 + smooth);
  writer.add_tensor("rope_freqs.weight",
                    at::tensor({1.0, 1.0, 1.0, 1.0, 1.0, 1.0, between, 32.0}).to(at::kFloat));
  test::write_bytes(folder.path() / "model.gguf", writer.bytes());
  const auto model = ModelFiles::open(folder.path() / "model.gguf");
  REQUIRE(model->config().rope_scaling.has_value());
  REQUIRE(model->config().rope_scaling->factor == 32.0);
  REQUIRE(model->config().rope_scaling->original_context_length == 8192.0);
  REQUIRE_FALSE(model->contains("rope_freqs.weight"));

  GgufWriter other = gguf_of(*original, "llama");
  other.add_tensor("rope_freqs.weight", at::tensor({1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 32.0}).to(at::kFloat));
  test::write_bytes(folder.path() / "model.gguf", other.bytes());
  REQUIRE_THROWS_WITH(ModelFiles::open(folder.path() / "model.gguf"), Contains("rope_freqs.weight"));
}

TEST_CASE("GGUF models of other kinds are refused by key", "[gguf][bad-input]") {
  const TemporaryFolder folder;
  const auto original = ModelFiles::open(test::fixture("models/tiny-llama"));
  const auto refused = [&](const GgufWriter& writer, const std::string& reason) {
    test::write_bytes(folder.path() / "model.gguf", writer.bytes());
    REQUIRE_THROWS_WITH(ModelFiles::open(folder.path() / "model.gguf"),
                        Contains("model.gguf") && Contains(reason));
    REQUIRE_THROWS_AS(ModelFiles::open(folder.path() / "model.gguf"), InputError);
  };
  refused(gguf_of(*original, "gemma2"), "\"gemma2\" is not supported (supported: llama, qwen2)");
  GgufWriter scaled = gguf_of(*original, "llama");
  scaled.add("llama.rope.scaling.type", "yarn");
  refused(scaled, "llama.rope.scaling.type \"yarn\"");
  GgufWriter experts = gguf_of(*original, "llama");
  experts.add("llama.expert_count", std::uint32_t{8});
  refused(experts, "llama.expert_count");
  GgufWriter partial = gguf_of(*original, "llama");
  partial.add("llama.rope.dimension_count", std::uint32_t{8});
  refused(partial, "llama.rope.dimension_count is 8");
  GgufWriter stray = gguf_of(*original, "llama");
  stray.add_tensor("blk.0.attn_q.bias", at::zeros({64}));
  refused(stray, "model.layers.0.self_attn.q_proj.bias has no place");
  refused(gguf_of(*original, "qwen2"), "model.layers.0.self_attn.k_proj.bias is missing");
  GgufWriter bare;
  refused(bare, "general.architecture is missing");
  bare.add("general.architecture", "llama");
  refused(bare, "has no tensor token_embd.weight");
}

TEST_CASE("the real model's tensors have the recorded sums", "[gguf]") {
  const std::filesystem::path shared = ZEROLOCK_SHARED;
  const std::filesystem::path file = shared / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(file)) {
    std::cout << "skipped: SmolLM2's GGUF file is not on this machine\n";
    return;
  }
  const auto summary = nlohmann::json::parse(test::read_bytes(shared / "fixtures/smollm2/gguf_summary.json"));
  const auto gguf = GgufFile::open(file);
  REQUIRE(gguf->tensors().size() == summary.at("tensors").size());
  for (const auto& record : summary.at("tensors")) {
    const std::string name = record.at("name");
    INFO(name);
    const StoredTensor& tensor = gguf->tensors().at(name);
    REQUIRE(tensor.shape() == record.at("numpy_shape").get<std::vector<std::int64_t>>());
    REQUIRE(tensor.stored_bytes() == record.at("n_bytes").get<std::size_t>());
    const at::Tensor values = tensor.expand().reshape(-1);
    const at::Tensor wide = values.to(at::kDouble);
    const double sum_of_squares = record.at("sum_sq");
    REQUIRE(wide.dot(wide).item<double>() == Approx(sum_of_squares).epsilon(1e-9));
    const double bound = 1e-9 * std::sqrt(sum_of_squares * static_cast<double>(wide.numel()));
    REQUIRE(std::abs(wide.sum().item<double>() - record.at("sum").get<double>()) <= bound);
    for (int i = 0; i < 4; ++i) REQUIRE(values[i].item<double>() == record.at("first4")[i].get<double>());
    for (int i = 0; i < 2; ++i) REQUIRE(values[i - 2].item<double>() == record.at("last2")[i].get<double>());
  }
  REQUIRE(gguf->metadata_strings("tokenizer.ggml.tokens").size() == 49152);
  REQUIRE(gguf->metadata_string("tokenizer.ggml.pre") == "smollm");

  const auto model = ModelFiles::open(file);
  REQUIRE(model->config().layers == 30);
  REQUIRE(model->config().head_dimension == 64);
  REQUIRE(model->config().tied_embeddings);
  REQUIRE(model->head().name() == "model.embed_tokens.weight");
  REQUIRE(model->config().vocabulary == 49152);
}

}  // namespace
}  // namespace zerolock
