// tokenizer.json files. synthetic.json was made with the tokenizers library 0.20.3: small tokenizers of every
// supported kind with the library's ids and decoded texts. The other values were recorded with
// transformers 4.46.3.

#include <catch2/catch.hpp>
#include <thread>

#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

void check_synthetic(const json& entry, const Tokenizer& tokenizer) {
  for (const json& row : entry.at("cases")) {
    INFO(entry.at("name") << " text " << row.at("text").dump(-1, ' ', true));
    const auto text = row.at("text").get<std::string>();
    const auto ids = row.at("ids").get<Ids>();
    CHECK(tokenizer.encode(text, false) == ids);
    CHECK(tokenizer.encode(text, true) == row.value("ids_special", ids));
    const auto decoded = row.at("decoded").get<std::string>();
    CHECK(tokenizer.decode(ids, false) == decoded);
    CHECK(tokenizer.decode(ids, true) == row.value("decoded_skip_special", decoded));
  }
  for (const json& row : entry.at("decodes")) {
    INFO(entry.at("name") << " ids " << row.at(0).dump());
    CHECK(tokenizer.decode(row.at(0).get<Ids>(), false) == row.at(1).get<std::string>());
  }
}

/// Opens a tokenizer of the folder next to the repository; nothing where that folder is missing.
std::shared_ptr<const Tokenizer> open_shared(const std::string& name) {
  const auto path = std::filesystem::path(ZEROLOCK_SHARED) / "data" / name;
  if (std::filesystem::exists(path)) return Tokenizer::open(path);
  WARN("skipped: " << name << " is not on this machine");
  return nullptr;
}

}  // namespace

TEST_CASE("tokenizer.json of every kind encodes and decodes as the tokenizers library") {
  for (const json& entry : tokenizer_fixture("synthetic.json")) {
    const TemporaryFolder folder;
    folder.write("tokenizer.json", synthetic_tokenizer(entry).dump());
    check_synthetic(entry, *Tokenizer::open(folder.path()));
  }
}

TEST_CASE("the mistral-style tokenizer.json equals transformers on every recorded string") {
  const auto tokenizer = open_shared("mistral-style-tokenizer");
  if (!tokenizer) return;
  CHECK(tokenizer->vocabulary() == 32000);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  for (const json& row : tokenizer_fixture("llama2_strings.json")) {
    INFO("text " << row.at("text").dump(-1, ' ', true));
    const auto ids = row.at("json_fast").get<Ids>();
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), true) == ids);
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), false) == Ids(ids.begin() + 1, ids.end()));
    CHECK(tokenizer->decode(ids, false) == row.at("decode_json_fast").get<std::string>());
    CHECK(tokenizer->decode(ids, true) == row.at("decode_json_fast_skip_special").get<std::string>());
  }
  for (const json& row : tokenizer_fixture("agnews200.json")) {
    REQUIRE(tokenizer->encode(row.at("text").get<std::string>(), true) == row.at("mistral_style").get<Ids>());
  }
}

TEST_CASE("Llama 2's tokenizer.json equals transformers on every recorded string") {
  const auto tokenizer = open_shared("llama2-tokenizer");
  if (!tokenizer) return;
  CHECK(tokenizer->vocabulary() == 32000);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  for (const json& row : tokenizer_fixture("llama2_strings.json")) {
    INFO("text " << row.at("text").dump(-1, ' ', true));
    CHECK(tokenizer->encode(row.at("text").get<std::string>(), true) ==
          row.at("model_converted_fast").get<Ids>());
  }
  for (const json& row : tokenizer_fixture("agnews200.json")) {
    REQUIRE(tokenizer->encode(row.at("text").get<std::string>(), true) == row.at("llama2").get<Ids>());
  }
}

TEST_CASE("threads share one tokenizer") {
  const TemporaryFolder folder;
  json entry;
  for (const json& candidate : tokenizer_fixture("synthetic.json")) {
    if (candidate.at("name") == "llama3") entry = candidate;
  }
  folder.write("tokenizer.json", synthetic_tokenizer(entry).dump());
  const auto tokenizer = Tokenizer::open(folder.path());
  const auto encode_all = [&] {
    std::vector<Ids> all;
    for (const json& row : entry.at("cases"))
      all.push_back(tokenizer->encode(row.at("text").get<std::string>(), true));
    return all;
  };
  const std::vector<Ids> expected = encode_all();
  std::vector<Ids> results[4];
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = encode_all(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("the files next to tokenizer.json name special tokens and the chat template") {
  const TemporaryFolder folder;
  const json model = {{"type", "BPE"},
                      {"vocab", {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"a", 3}, {"<end>", 4}}},
                      {"merges", json::array()}};
  folder.write(
      "tokenizer.json",
      json{{"model", model}, {"added_tokens", {{{"id", 4}, {"content", "<end>"}, {"special", true}}}}}
          .dump());
  const auto open = [&] { return Tokenizer::open(folder.path()); };
  CHECK_FALSE(open()->bos());
  CHECK_FALSE(open()->eos());
  CHECK(open()->encode("a", true) == Ids{3});

  folder.write("config.json", R"({"bos_token_id": 1, "eos_token_id": [2, 4]})");
  CHECK(open()->bos() == 1);
  CHECK(open()->eos() == 2);
  CHECK(open()->encode("a<end>", true) == Ids{3, 4});

  folder.write("special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": {"content": "<end>"}})");
  CHECK(open()->eos() == 4);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>",
    "add_eos_token": true, "chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]})");
  CHECK(open()->eos() == 2);
  CHECK(open()->encode("a", true) == Ids{1, 3, 2});
  CHECK(open()->chat_template() == "y");
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false})");
  CHECK(open()->encode("a", true) == Ids{3});
  CHECK_FALSE(open()->chat_template());
  folder.write("chat_template.jinja", "{{ messages }}\n");
  CHECK(open()->chat_template() == "{{ messages }}\n");
}
