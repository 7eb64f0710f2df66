// The tokenizers that GGUF files bring along.

#include <bit>
#include <catch2/catch.hpp>

#include "data/sentence_piece_model.hpp"
#include "data/tokenizer_files.hpp"
#include "tensors/base/error.hpp"
#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

/// Writes GGUF files of version 3 that have metadata and no tensors.
class GgufWriter {
 public:
  void add(const std::string& key, const std::string& value) {
    begin(key, 8);
    text(value);
  }
  void add(const std::string& key, bool value) {
    begin(key, 7);
    body_ += static_cast<char>(value);
  }
  void add(const std::string& key, std::uint32_t value) {
    begin(key, 4);
    number(value);
  }
  void add(const std::string& key, const std::vector<std::string>& values) {
    begin_list(key, 8, values.size());
    for (const std::string& value : values) text(value);
  }
  void add(const std::string& key, const std::vector<std::int32_t>& values) {
    begin_list(key, 5, values.size());
    for (const std::int32_t value : values) number(value);
  }
  void add(const std::string& key, const std::vector<float>& values) {
    begin_list(key, 6, values.size());
    for (const float value : values) number(std::bit_cast<std::uint32_t>(value));
  }
  [[nodiscard]] std::string bytes() {
    const std::string body = std::move(body_);
    body_ = "GGUF";
    number(std::uint32_t{3});
    number(std::uint64_t{0});
    number(count_);
    return body_ + body;
  }

 private:
  template <class Number>
  void number(Number value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(std::uint64_t{value.size()});
    body_ += value;
  }
  void begin(const std::string& key, std::uint32_t type) {
    ++count_;
    text(key);
    number(type);
  }
  void begin_list(const std::string& key, std::uint32_t type, std::uint64_t size) {
    begin(key, 9);
    number(type);
    number(size);
  }

  std::string body_;
  std::uint64_t count_ = 0;
};

/// A tokenizer.json of a byte-level kind as GGUF. Keeps the special added tokens, as CONTROL.
GgufWriter as_gguf(const json& tokenizer, const std::string& pre) {
  const json& model = tokenizer.at("model");
  std::vector<std::string> tokens(model.at("vocab").size() + tokenizer.at("added_tokens").size());
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const auto& [text, id] : model.at("vocab").items()) tokens.at(id.get<std::size_t>()) = text;
  for (const json& added : tokenizer.at("added_tokens")) {
    const auto id = added.at("id").get<std::size_t>();
    tokens.at(id) = added.at("content").get<std::string>();
    types.at(id) = added.at("special").get<bool>() ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const json& merge : model.at("merges")) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufWriter file;
  file.add("tokenizer.ggml.model", std::string("gpt2"));
  file.add("tokenizer.ggml.pre", pre);
  file.add("tokenizer.ggml.tokens", tokens);
  file.add("tokenizer.ggml.token_type", types);
  file.add("tokenizer.ggml.merges", merges);
  return file;
}

/// The pieces of a .model file as GGUF; BOS is 1, EOS 2.
GgufWriter pieces_as_gguf(const std::filesystem::path& model) {
  const SentencePieceFile content = read_sentence_piece_file(model);
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  for (const SentencePiece& piece : content.model.pieces()) {
    tokens.push_back(piece.text);
    types.push_back(static_cast<std::int32_t>(piece.type));
    scores.push_back(piece.score);
  }
  GgufWriter file;
  file.add("tokenizer.ggml.model", std::string("llama"));
  file.add("tokenizer.ggml.tokens", tokens);
  file.add("tokenizer.ggml.token_type", types);
  file.add("tokenizer.ggml.scores", scores);
  file.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  file.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  return file;
}

}  // namespace

TEST_CASE("SmolLM2's GGUF tokenizer equals the recorded ids on every string") {
  if (!std::filesystem::exists(real_model_file())) {
    WARN("skipped: the SmolLM2 file is not on this machine");
    return;
  }
  const auto tokenizer = Tokenizer::open(real_model_file());
  CHECK(tokenizer->vocabulary() == 49152);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  REQUIRE(tokenizer->chat_template());
  CHECK(tokenizer->chat_template()->find("<|im_start|>") != std::string::npos);
  for (const json& row : tokenizer_fixture("smollm2_strings.json")) {
    INFO("text " << row.at("text").dump(-1, ' ', true));
    const auto ids = row.at("ids").get<Ids>();
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), true) == ids);
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), false) == ids);
    CHECK(tokenizer->decode(ids, false) == row.at("decoded").get<std::string>());
    CHECK(tokenizer->decode(ids, true) == row.at("decoded_skip_special").get<std::string>());
  }
  for (const json& row : tokenizer_fixture("agnews200.json")) {
    REQUIRE(tokenizer->encode(row.at("text").get<std::string>(), true) == row.at("smollm2").get<Ids>());
  }
}

TEST_CASE("a GGUF file of pieces and scores equals the tokenizer.model it comes from") {
  if (!std::filesystem::exists(llama2_tokenizer_file())) {
    WARN("skipped: Llama 2's tokenizer.model is not on this machine");
    return;
  }
  const TemporaryFolder folder;
  const auto tokenizer =
      Tokenizer::open(folder.write("llama2.gguf", pieces_as_gguf(llama2_tokenizer_file()).bytes()));
  CHECK(tokenizer->vocabulary() == 32000);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  for (const json& row : tokenizer_fixture("llama2_strings.json")) {
    INFO("text " << row.at("text").dump(-1, ' ', true));
    const auto ids = row.at("model_slow").get<Ids>();
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), true) == ids);
    CHECK(tokenizer->decode(ids, false) == row.at("decode_model_slow").get<std::string>());
    CHECK(tokenizer->decode(ids, true) == row.at("decode_model_slow_skip_special").get<std::string>());
  }
  for (const json& row : tokenizer_fixture("agnews200.json")) {
    REQUIRE(tokenizer->encode(row.at("text").get<std::string>(), true) == row.at("llama2").get<Ids>());
  }
}

TEST_CASE("a GGUF file of each byte-level family equals the tokenizer.json of the same family") {
  const std::map<std::string, std::string> families = {
      {"gpt2", "gpt-2"}, {"smollm", "smollm"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"}};
  std::size_t compared = 0;
  for (const json& entry : tokenizer_fixture("synthetic.json")) {
    const auto family = families.find(entry.at("name").get<std::string>());
    if (family == families.end()) continue;
    json tokenizer = synthetic_tokenizer(entry);
    // GGUF says of added tokens only what they are, not how they are matched.
    for (json& added : tokenizer["added_tokens"]) {
      for (const char* flag : {"normalized", "single_word", "lstrip", "rstrip"}) added[flag] = false;
    }
    const TemporaryFolder folder;
    const auto from_json = Tokenizer::open(folder.write("tokenizer.json", tokenizer.dump()));
    GgufWriter file = as_gguf(tokenizer, family->second);
    if (from_json->bos())
      file.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*from_json->bos()));
    const auto from_gguf = Tokenizer::open(folder.write("model.gguf", file.bytes()));
    CHECK(from_gguf->vocabulary() == from_json->vocabulary());
    std::filesystem::create_directories(folder.path() / "copy");
    copy_tokenizer(folder.path() / "model.gguf", folder.path() / "copy");
    const auto copied = Tokenizer::open(folder.path() / "copy");
    CHECK(copied->vocabulary() == from_json->vocabulary());
    CHECK(copied->bos() == from_gguf->bos());
    json texts = tokenizer_fixture("words.json");
    texts.insert(texts.end(), entry.at("cases").begin(), entry.at("cases").end());
    for (const json& row : texts) {
      INFO(family->first << " text " << row.at("text").dump(-1, ' ', true));
      const auto text = row.at("text").get<std::string>();
      const Ids ids = from_json->encode(text, true);
      CHECK(from_gguf->encode(text, true) == ids);
      CHECK(copied->encode(text, true) == ids);
      CHECK(copied->decode(ids, true) == from_json->decode(ids, true));
      CHECK(from_gguf->decode(ids, true) == from_json->decode(ids, true));
      ++compared;
    }
  }
  CHECK(compared > 4 * 200);
}

TEST_CASE("the switches of a GGUF file decide about BOS, EOS and the space in front") {
  const TemporaryFolder folder;
  const std::string space = "\u2581";
  // 259 space, 260 a, 261 space+a
  GgufWriter file = pieces_as_gguf(folder.write(
      "tokenizer.model", written_sentence_piece_model({{space, -3}, {"a", -2}, {space + "a", -1}})));
  file.add("tokenizer.ggml.add_bos_token", false);
  file.add("tokenizer.ggml.add_eos_token", true);
  file.add("tokenizer.ggml.add_space_prefix", false);
  file.add("tokenizer.chat_template", std::string("{{ x }}"));
  const auto tokenizer = Tokenizer::open(folder.write("pieces.gguf", file.bytes()));
  CHECK(tokenizer->encode("a", true) == Ids{260, 2});
  CHECK(tokenizer->encode("a a", false) == Ids{260, 261});
  CHECK(tokenizer->decode(Ids{260, 261}, true) == "a a");
  CHECK(tokenizer->chat_template() == "{{ x }}");
}

TEST_CASE("broken tokenizers in GGUF files are refused by name") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::function<void(GgufWriter&)>& fill, const std::string& reason) {
    GgufWriter file;
    fill(file);
    const auto path = folder.write("model.gguf", file.bytes());
    CHECK_THROWS_WITH(Tokenizer::open(path), Catch::Contains("model.gguf") && Catch::Contains(reason));
    CHECK_THROWS_AS(Tokenizer::open(path), InputError);
  };
  const auto kind = [](GgufWriter& file, const char* model, const char* pre) {
    file.add("tokenizer.ggml.model", std::string(model));
    file.add("tokenizer.ggml.pre", std::string(pre));
  };
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  refused([](GgufWriter&) {}, "no tokenizer");
  refused([&](GgufWriter& f) { kind(f, "bert", "x"); }, "\"bert\" is not supported; supported: gpt2, llama");
  refused([&](GgufWriter& f) { kind(f, "gpt2", "tekken"); },
          "\"tekken\" is not supported; supported: gpt-2, smollm");
  refused([&](GgufWriter& f) { kind(f, "gpt2", "gpt-2"); }, "tokenizer.ggml.tokens");
  const auto byte_level = [&](GgufWriter& f, std::vector<std::int32_t> types,
                              std::vector<std::string> merges) {
    kind(f, "gpt2", "gpt-2");
    f.add("tokenizer.ggml.tokens", tokens);
    f.add("tokenizer.ggml.token_type", types);
    f.add("tokenizer.ggml.merges", merges);
  };
  refused([&](GgufWriter& f) { byte_level(f, {1, 1}, {}); }, "2 entries for 3 tokens");
  refused([&](GgufWriter& f) { byte_level(f, {1, 1, 7}, {}); }, "token 2 has type 7");
  refused([&](GgufWriter& f) { byte_level(f, {1, 1, 1}, {"a"}); }, "number 0 is not a pair");
  refused([&](GgufWriter& f) { byte_level(f, {1, 1, 1}, {"a b", "b a"}); }, "needs the token \"ba\"");
  refused(
      [&](GgufWriter& f) {
        byte_level(f, {1, 1, 1}, {"a b"});
        f.add("tokenizer.ggml.bos_token_id", std::uint32_t{3});
      },
      "special token id 3 is outside the vocabulary of 3 tokens");
  const auto pieces = [&](GgufWriter& f, std::vector<std::int32_t> types, std::vector<float> scores) {
    f.add("tokenizer.ggml.model", std::string("llama"));
    f.add("tokenizer.ggml.tokens", tokens);
    f.add("tokenizer.ggml.token_type", types);
    f.add("tokenizer.ggml.scores", scores);
  };
  refused(
      [&](GgufWriter& f) {
        pieces(f, {2, 1, 1}, {0, 0});
      },
      "tokenizer.ggml.scores has 2 entries for 3 tokens");
  refused([&](GgufWriter& f) { pieces(f, {2, 1, 1}, {0, 0, NAN}); }, "piece 2 has a score that is no number");
  refused([&](GgufWriter& f) { pieces(f, {1, 1, 1}, {0, 0, 0}); }, "no piece is of type 2");
  refused([&](GgufWriter& f) { pieces(f, {2, 1, 1}, {0, 0, 0}); }, "does not say which token");
}
