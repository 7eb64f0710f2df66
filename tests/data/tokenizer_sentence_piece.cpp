// Llama 2's tokenizer.model, against values recorded with transformers 4.46.3's LlamaTokenizer (legacy mode).

#include <catch2/catch.hpp>

#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;
using nlohmann::json;

namespace {
using Ids = std::vector<TokenId>;
}  // namespace

TEST_CASE("tokenizer.model equals transformers on every recorded string") {
  const auto tokenizer = Tokenizer::open(llama2_model_file());
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
