// Files that cannot be used and what is said about them.

#include <catch2/catch.hpp>

#include "tensors/base/error.hpp"
#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;
using nlohmann::json;

namespace {

/// A tokenizer.json that works, to be broken in one place.
json good_tokenizer() {
  return json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<end>", "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "special_tokens": {}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

/// Puts a value at a JSON pointer of the good file and expects the refusal.
void refused(const std::string& place, const json& value, const std::string& reason) {
  const TemporaryFolder folder;
  json tokenizer = good_tokenizer();
  tokenizer[json::json_pointer(place)] = value;
  const auto file = folder.write("tokenizer.json", tokenizer.dump());
  INFO(place << " = " << value.dump());
  CHECK_THROWS_AS(Tokenizer::open(file), InputError);
  CHECK_THROWS_WITH(Tokenizer::open(file),
                    Catch::Contains("tokenizer.json") && Catch::Contains(reason) && !Catch::Contains("\n"));
}

}  // namespace

TEST_CASE("the file that the others are made of works") {
  const TemporaryFolder folder;
  const auto tokenizer = Tokenizer::open(folder.write("tokenizer.json", good_tokenizer().dump()));
  CHECK(tokenizer->encode("ab<end>ba", true) == std::vector<TokenId>{2, 3, 1, 0});
}

TEST_CASE("parts of a tokenizer.json that are not supported are refused by name") {
  refused("/model/type", "Unigram", "type \"Unigram\" is not supported; supported: BPE");
  refused("/model/type", "WordPiece", "\"WordPiece\"");
  refused("/model/dropout", 0.1, "dropout 0.1 is not supported");
  refused("/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  refused("/normalizer", {{"type", "Lowercase"}},
          "\"Lowercase\" is not supported; supported: Sequence, Prepend");
  refused("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "x+"}}}, {"content", ""}}, "\"x+\"");
  refused("/normalizer", {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", ""}},
          "must not be empty");
  refused("/pre_tokenizer", {{"type", "Whitespace"}},
          "\"Whitespace\" is not supported; supported: Sequence, ByteLevel");
  refused("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}},
          "\"\\w+\"");
  refused("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Isolated"}},
          "pattern");
  refused("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}},
          "\"last\"");
  refused("/post_processor", {{"type", "BertProcessing"}}, "\"BertProcessing\" is not supported");
  refused("/post_processor/single", json::array(), "must hold the text once");
  refused("/post_processor/single", {{{"SpecialToken", {{"id", "x"}}}}, {{"Sequence", {{"id", "A"}}}}},
          "x is missing");
  refused("/decoder", {{"type", "WordPiece"}},
          "\"WordPiece\" is not supported; supported: Sequence, Replace");
  refused("/decoder", {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}},
          "must not be negative");
}

TEST_CASE("vocabularies and merges that contradict themselves are refused") {
  refused("/model/vocab", json::object(), "the vocabulary is empty");
  refused("/model/vocab", json::array(), "vocab must be an object");
  refused("/model/vocab/b", 0, "both have id 0");
  refused("/model/vocab/b", -1, "the id -1");
  refused("/model/vocab/b", 1.5, "the id 1.5");
  refused("/model/vocab/b", "1", "gives token \"b\" the id");
  refused("/model/vocab/b", std::int64_t{1} << 60, "ids go from 0 to 16777215");
  refused("/model/vocab/b", ~std::uint64_t{0}, "ids go from 0 to 16777215");
  refused("/model/merges", json::array({json::array({"b", "a"})}),
          "merge 0 (\"b\" \"a\") needs the token \"ba\"");
  refused("/model/merges", json::array({json::array({"a", "c"})}), "needs the token \"ac\"");
  refused("/model/merges", {"a b", "ab"}, "as number 1");
  refused("/model/merges", {"a b c"}, "as number 0");
  refused("/model/merges", json::array({json::array({"a", 1})}), "as number 0");
  refused("/model/merges", "a b", "merges must be a list");
  refused("/model/unk_token", "<unk>", "unk_token \"<unk>\" is not in the vocabulary");
  refused("/model/ignore_merges", 1, "ignore_merges must be true or false");
  refused("/added_tokens/0/id", 1, "the vocabulary has \"b\" there");
  refused("/added_tokens/0/content", "ab", "the vocabulary has it as id 2");
  refused("/added_tokens/0/id", std::int64_t{1} << 60, "ids go from 0");
  refused("/added_tokens/1", {{"id", 3}, {"content", "<other>"}}, "another added token has that id");
  refused("/added_tokens/1", {{"id", 4}, {"content", "<end>"}}, "it stands twice");
  refused("/added_tokens/0/special", "yes", "special must be true or false");
}

TEST_CASE("files that are missing or no JSON are refused") {
  const TemporaryFolder folder;
  const auto reason = [&](const std::string& name, const std::string& expected) {
    CHECK_THROWS_AS(Tokenizer::open(folder.path() / name), InputError);
    CHECK_THROWS_WITH(Tokenizer::open(folder.path() / name),
                      Catch::Contains(name) && Catch::Contains(expected));
  };
  CHECK_THROWS_WITH(Tokenizer::open(folder.path()),
                    Catch::Contains("neither tokenizer.json nor tokenizer.model"));
  reason("none.json", "no such file");
  folder.write("model.bin", "x");
  reason("model.bin", "not a tokenizer");
  folder.write("tokenizer.json", R"({"model": )");
  reason("tokenizer.json", "JSON");
  folder.write("tokenizer.json", "[1]");
  reason("tokenizer.json", "not a JSON object");
  folder.write("tokenizer.json", "{}");
  reason("tokenizer.json", "model is missing");
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})");
  reason("tokenizer.json", "\"a\" twice");
  folder.write("tokenizer.model", "this is no model");
  reason("tokenizer.model", "not a sentencepiece model");
  folder.write("empty.model", "");
  reason("empty.model", "not a sentencepiece model");
  folder.write("broken.gguf", "GGUF");
  reason("broken.gguf", "");
}

TEST_CASE("special tokens that do not exist are refused") {
  const TemporaryFolder folder;
  const auto file = folder.write("tokenizer.json", good_tokenizer().dump());
  const auto refused_config = [&](const char* name, const char* content, const std::string& expected) {
    folder.write(name, content);
    INFO(content);
    CHECK_THROWS_AS(Tokenizer::open(file), InputError);
    CHECK_THROWS_WITH(Tokenizer::open(file), Catch::Contains(expected));
    std::filesystem::remove(folder.path() / name);
  };
  refused_config("tokenizer_config.json", R"({"eos_token": "<none>"})",
                 "\"<none>\" is not in the vocabulary");
  refused_config("tokenizer_config.json", R"({"eos_token": 7})", "eos_token must be a text");
  refused_config("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})", "adds BOS");
  refused_config("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
                 "\"x\" is not a token id");
  refused_config("config.json", R"({"bos_token_id": 4})",
                 "special token id 4 is outside the vocabulary of 4 tokens");
  refused_config("config.json", R"({"eos_token_id": "2"})", "eos_token_id must be a token id");

  const auto model = folder.write("tokenizer.model", written_sentence_piece_model({{"a", -1}}));
  const auto refused_model = [&](const char* content, const std::string& expected) {
    folder.write("tokenizer_config.json", content);
    INFO(content);
    CHECK_THROWS_AS(Tokenizer::open(model), InputError);
    CHECK_THROWS_WITH(Tokenizer::open(model), Catch::Contains(expected));
  };
  refused_model(R"({"eos_token": "<none>"})", "\"<none>\" is not in the vocabulary");
  refused_model(R"({"legacy": false})", "\"legacy\": false");
  refused_model(R"({"added_tokens_decoder": {"5": {"content": "<x>"}}})", "the model has \"<0x02>\" there");
}

TEST_CASE("text that is not UTF-8 and ids outside are refused") {
  const TemporaryFolder folder;
  for (const auto& file : {folder.write("tokenizer.json", good_tokenizer().dump()),
                           folder.write("tokenizer.model", written_sentence_piece_model({{"a", -1}}))}) {
    const auto tokenizer = Tokenizer::open(file);
    CHECK_THROWS_AS(tokenizer->encode("ab\xFF", false), InputError);
    CHECK_THROWS_WITH(tokenizer->encode("ab\xFF", false), Catch::Contains("not valid UTF-8 at byte 2"));
    for (const TokenId id : {TokenId{-1}, tokenizer->vocabulary(), TokenId{1} << 40}) {
      CHECK_THROWS_AS(tokenizer->decode(std::vector<TokenId>{0, id}, false), InputError);
      CHECK_THROWS_WITH(tokenizer->decode(std::vector<TokenId>{0, id}, false),
                        Catch::Contains("token id " + std::to_string(id)) && Catch::Contains("outside"));
    }
    CHECK(tokenizer->decode({}, true).empty());
    CHECK(tokenizer->encode("", false).empty());
  }
}
