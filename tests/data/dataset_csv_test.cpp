/// CSV records and UTF-8: every way in which files in the wild write them.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/csv.hpp"
#include "data/utf8.hpp"

namespace zerolock {
namespace {

std::vector<CsvRow> rows_of(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvReader reader(text);
  while (auto row = reader.next()) rows.push_back(*row);
  return rows;
}

using Fields = std::vector<std::string>;

TEST_CASE("CSV rows end with LF, CRLF or the file", "[csv]") {
  for (const char* text :
       {"1,a,b\n2,c,d\n", "1,a,b\r\n2,c,d\r\n", "1,a,b\n2,c,d", "1,a,b\n2,c,d\n\n\r\n \n"}) {
    const auto rows = rows_of(text);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].fields == Fields{"1", "a", "b"});
    CHECK(rows[1].fields == Fields{"2", "c", "d"});
    CHECK(rows[1].line == 2);
    CHECK_FALSE(rows[1].error);
  }
  CHECK(rows_of("").empty());
  CHECK(rows_of("\n\n").empty());
}

TEST_CASE("Quoted CSV fields hold commas, quotes and line breaks, and lines are counted through them",
          "[csv]") {
  const auto rows = rows_of("\"1\",\"a, \"\"b\"\"\",\"two\nlines\r\nthree\"\n\"2\",\"\",\"\"\"\"\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].fields == Fields{"1", "a, \"b\"", "two\nlines\r\nthree"});
  CHECK(rows[1].fields == Fields{"2", "", "\""});
  CHECK(rows[1].line == 4);
}

TEST_CASE("A backslash is an ordinary character where the row can be read so", "[csv]") {
  const auto rows = rows_of(
      "\"4\",\"Loosing\",\"\\\\\"\"Sven said.\"\"\\\\\"\"The end ...\\\\\"\n"
      "\"4\",\"a\\b\",\"ends with a backslash\\\"\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].fields == Fields{"4", "Loosing", "\\\\\"Sven said.\"\\\\\"The end ...\\\\"});
  CHECK(rows[1].fields == Fields{"4", "a\\b", "ends with a backslash\\"});
}

TEST_CASE("A backslash escapes a quote where the row cannot be read otherwise", "[csv]") {
  const auto rows = rows_of(
      "\"1\",\"plain\",\"row\"\n"
      "\"2\",\"He said \\\"yes\\\" twice\",\"and \\\"no\\\", once\"\n"
      "\"3\",\"he said \\\"no\\\"\",\"x\"\n"
      "\"4\",\"mixed \\\"a\\\" and \"\"b\"\"\",\"x\"\n");
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].fields == Fields{"2", "He said \"yes\" twice", "and \"no\", once"});
  CHECK(rows[2].fields == Fields{"3", "he said \"no\"", "x"});
  CHECK(rows[3].fields == Fields{"4", "mixed \"a\" and \"b\"", "x"});
}

TEST_CASE("Broken CSV rows are named with their line and cost no more than that line", "[csv]") {
  const auto rows = rows_of("1,a,b\n2,c\n3,\"d,e\n4,f,g\n\n5,h,i\n6,\"j\"k,l\n7,m\"n,o\n8,p,q\n");
  REQUIRE(rows.size() == 9);
  CHECK_FALSE(rows[0].error);
  CHECK(rows[1].error == "has 2 fields where the first row has 3");
  CHECK(rows[1].line == 2);
  CHECK(rows[2].error);  // its quote ends in row 6
  CHECK(rows[2].line == 3);
  CHECK(rows[3].fields == Fields{"4", "f", "g"});
  CHECK(rows[3].line == 4);
  CHECK(rows[4].error == "a blank line between rows");
  CHECK(rows[4].line == 5);
  CHECK(rows[5].fields == Fields{"5", "h", "i"});
  CHECK(rows[6].error);
  CHECK(rows[7].error);
  CHECK(rows[8].fields == Fields{"8", "p", "q"});
  CHECK(rows[8].line == 9);
}

TEST_CASE("A quote that never ends is told as such", "[csv]") {
  const auto rows = rows_of("1,a,b\n2,\"c,d\n3,e,f");
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].error == "a quoted field does not end");
  CHECK(rows[1].line == 2);
  CHECK(rows[2].fields == Fields{"3", "e", "f"});
}

TEST_CASE("AG News has 7600 rows of three fields", "[csv]") {
  const std::filesystem::path file = std::filesystem::path(ZEROLOCK_SHARED) / "data/agnews/test.csv";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: the shared data folder is missing");
    return;
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto rows = rows_of(text);
  REQUIRE(rows.size() == 7600);
  for (const CsvRow& row : rows) {
    REQUIRE_FALSE(row.error);
    REQUIRE(row.fields.size() == 3);
  }
  CHECK(rows[6].fields[2].starts_with("\\\\\"Sven Jaschan, self-confessed"));
  CHECK(rows[6].fields[2].ends_with("staggeri ...\\\\"));
  CHECK(rows.back().line == 7600);
}

TEST_CASE("UTF-8 is checked as the standard's table says", "[utf8]") {
  for (const std::string_view good : {"", "plain", "\u00e9\u20ac\uffff", "\xF0\x90\x80\x80",
                                      "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF", "\xEE\x80\x80"}) {
    CHECK_FALSE(first_invalid_utf8(good));
  }
  for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                                     "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82",
                                     "\xC3", "\xC3(", "\xE2\x28\xA1", "\xF0\x90\x80", "\xFF"}) {
    CHECK(first_invalid_utf8(bad) == 0U);
  }
  CHECK(first_invalid_utf8("ab\xE9"
                           "cd") == 2U);
  CHECK(utf8_problem("ab\xE9"
                     "cd") == "byte 0xE9 at offset 2 is not UTF-8");
}

TEST_CASE("UTF-8: exactly the encodings of code points are valid", "[utf8]") {
  // All two-byte strings, and all three-byte strings of a lead byte with two sampled continuation bytes.
  std::size_t valid_pairs = 0;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      valid_pairs += first_invalid_utf8(text) ? 0 : 1;
    }
  }
  CHECK(valid_pairs == 128 * 128 + (0x800 - 0x80));
  std::size_t valid_triples = 0;
  for (int a = 0xE0; a < 0xF0; ++a) {
    for (int b = 0; b < 256; ++b) {
      for (int c = 0; c < 256; ++c) {
        const std::string text{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        valid_triples += first_invalid_utf8(text) ? 0 : 1;
      }
    }
  }
  CHECK(valid_triples == 0x10000 - 0x800 - 0x800);  // without surrogates
}

}  // namespace
}  // namespace zerolock
