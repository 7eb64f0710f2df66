#include "data/byte_tokenizer.hpp"

#include <catch2/catch.hpp>

#include "data/tokenizer.hpp"
#include "tests/temporary_folder.hpp"

using namespace zerolock;

TEST_CASE("tokens of the byte tokenizer are the bytes of the text") {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", byte_tokenizer_json());
  const auto tokenizer = Tokenizer::open(folder.path());
  REQUIRE(tokenizer->vocabulary() == byte_tokenizer_vocabulary);
  REQUIRE_FALSE(tokenizer->bos());
  for (const std::string text : {"", "a line\n", "  blanks  and 12345, ", "\xC3\xA9\xE2\x82\xAC \x01\x7F"}) {
    std::vector<TokenId> bytes;
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    CHECK(tokenizer->encode(text, true) == bytes);
    CHECK(tokenizer->decode(bytes, false) == text);
  }
}
