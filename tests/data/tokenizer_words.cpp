// The word patterns and the characters they are made of. words.json was made with the tokenizers library
// 0.20.3: its ByteLevel, Digits and Split pre-tokenizers applied to each text.

#include <catch2/catch.hpp>

#include "data/pre_tokenizer.hpp"
#include "data/token_decoder.hpp"
#include "data/unicode.hpp"
#include "tests/data/tokenizer_fixtures.hpp"

using namespace zerolock;

namespace {

std::vector<std::string> as_strings(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

/// Words written in the byte alphabet, as text again.
std::vector<std::string> out_of_byte_alphabet(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) result.push_back(TokenDecoder({DecodeByteLevel{}}).decode({word}));
  return result;
}

}  // namespace

TEST_CASE("words are those of the tokenizers library") {
  const PreTokenizer gpt2({ByteLevelSplit{}});
  const PreTokenizer smollm({DigitSplit{true}, ByteLevelSplit{}});
  for (const auto& row : tokenizer_fixture("words.json")) {
    const auto text = row.at("text").get<std::string>();
    INFO("text " << row.at("text").dump(-1, ' ', true));
    const auto recorded = [&](const char* kind) { return row.at(kind).get<std::vector<std::string>>(); };
    CHECK(as_strings(split_words(text, WordPattern::Gpt2)) == recorded("gpt2"));
    CHECK(as_strings(split_words(text, WordPattern::Llama3)) == recorded("llama3"));
    CHECK(as_strings(split_words(text, WordPattern::Qwen2)) == recorded("qwen2"));
    CHECK(out_of_byte_alphabet(gpt2.split(text, true)) == recorded("gpt2"));
    CHECK(out_of_byte_alphabet(smollm.split(text, true)) == recorded("smollm"));
  }
}

TEST_CASE("the byte alphabet gives every byte its own character") {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    REQUIRE(byte_of(byte_alphabet()[byte]) == static_cast<std::uint8_t>(byte));
  }
  CHECK(byte_alphabet()[' '] == U'\u0120');
  CHECK(byte_alphabet()['\n'] == U'\u010A');
  CHECK(byte_alphabet()[0xAD] == U'\u0143');
  CHECK_FALSE(byte_of(U' '));
  CHECK_FALSE(byte_of(U'\u0144'));
  CHECK_FALSE(byte_of(U'\U0001F600'));
}

TEST_CASE("each ill-formed part of a byte string becomes one replacement character") {
  // The example of the Unicode standard, table 3-8, and its neighbours.
  CHECK(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64") ==
        "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  CHECK(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
        "A");
  CHECK(replace_invalid_utf8("\xED\xA0\x80\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
        "A\uFFFD\uFFFD"
        "B");
  CHECK(replace_invalid_utf8("caf\xC3") == "caf\uFFFD");
  CHECK(replace_invalid_utf8("\u00e9\u4f60\U0001F600") == "\u00e9\u4f60\U0001F600");
}

TEST_CASE("normal forms keep NUL and compose what belongs together") {
  using namespace std::string_view_literals;
  CHECK(normalize("e\u0301\0A\u030A"sv, NormalizationForm::C) == "\u00e9\0\u00c5"sv);
  CHECK(normalize("\u00e9", NormalizationForm::D) == "e\u0301");
  CHECK(normalize("\uFB01\u2460", NormalizationForm::KC) == "fi1");
  CHECK(normalize("\uFB01\u00e9", NormalizationForm::KD) == "fie\u0301");
}
