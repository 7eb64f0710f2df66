// Llama 2's tokenizer.model, against values recorded with transformers 4.46.3's LlamaTokenizer (legacy mode).

#include <catch2/catch.hpp>

#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;
using nlohmann::json;

namespace {
using Ids = std::vector<TokenId>;
}  // namespace

TEST_CASE("tokenizer.model equals transformers on every recorded string") {
  if (!std::filesystem::exists(llama2_tokenizer_file())) {
    WARN("skipped: Llama 2's tokenizer.model is not on this machine");
    return;
  }
  const auto tokenizer = Tokenizer::open(llama2_tokenizer_file());
  CHECK(tokenizer->vocabulary() == 32000);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK_FALSE(tokenizer->chat_template());
  for (const json& row : tokenizer_fixture("llama2_strings.json")) {
    INFO("text " << row.at("text").dump(-1, ' ', true));
    const auto ids = row.at("model_slow").get<Ids>();
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), true) == ids);
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), false) == Ids(ids.begin() + 1, ids.end()));
    CHECK(tokenizer->decode(ids, false) == row.at("decode_model_slow").get<std::string>());
    CHECK(tokenizer->decode(ids, true) == row.at("decode_model_slow_skip_special").get<std::string>());
  }
  for (const json& row : tokenizer_fixture("agnews200.json")) {
    REQUIRE(tokenizer->encode(row.at("text").get<std::string>(), true) == row.at("llama2").get<Ids>());
  }
}

TEST_CASE("a .model file merges by score, falls back to bytes and begins with a space") {
  const TemporaryFolder folder;
  const std::string space = "\u2581";
  // 259 space, 260 a, 261 b, 262 c, 263 bc, 264 ab, 265 space+a
  const auto file = folder.write(
      "tokenizer.model",
      written_sentence_piece_model(
          {{space, -10}, {"a", -11}, {"b", -12}, {"c", -13}, {"bc", -1}, {"ab", -2}, {space + "a", -3}}));
  const auto tokenizer = Tokenizer::open(file);
  CHECK(tokenizer->vocabulary() == 266);
  CHECK(tokenizer->encode("abc", false) == Ids{265, 263});  // bc first, so that ab cannot be
  CHECK(tokenizer->encode("ab", false) == Ids{259, 264});   // ab before space+a
  CHECK(tokenizer->encode("ab", true) == Ids{1, 259, 264});
  CHECK(tokenizer->encode("\u00e9", false) == Ids{259, 3 + 0xC3, 3 + 0xA9});
  CHECK(tokenizer->encode("a</s>", false) == Ids{265, 2});
  CHECK(tokenizer->decode(Ids{1, 265, 263}, true) == "abc");
  CHECK(tokenizer->decode(Ids{259, 3 + 0xC3, 3 + 0xA9}, false) == "\u00e9");
  CHECK(tokenizer->decode(Ids{260, 3 + 0xC3}, false) == "a\uFFFD");
}
