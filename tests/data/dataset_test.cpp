/// Data files as examples: prompts, answers, cuts, counts and every kind of broken row.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "tensors/base/error.hpp"
#include "tests/data/temporary_file.hpp"
#include "tests/data/word_tokenizer.hpp"

namespace zerolock {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

const char* const kChatMl = "'<|im_start|>' + message['role']";

/// Reads `bytes` as a file of the given name.
Dataset read(std::string_view name, std::string_view bytes, const DatasetOptions& options,
             const Tokenizer& tokenizer) {
  const TemporaryFile file(name, bytes);
  return read_dataset(file.path(), tokenizer, options);
}

Dataset read(std::string_view name, std::string_view bytes, const DatasetOptions& options = {}) {
  static const WordTokenizer tokenizer(false, kChatMl);
  return read(name, bytes, options, tokenizer);
}

/// The text of an example with what is learned in curly brackets.
std::string marked(const Example& example, const WordTokenizer& tokenizer) {
  std::string text;
  std::size_t at = 0;
  const auto part = [&](std::size_t begin, std::size_t end) {
    return tokenizer.decode(std::span(example.tokens).subspan(begin, end - begin), false);
  };
  for (const TokenSpan& span : example.supervised) {
    text += part(at, span.begin) + "{" + part(span.begin, span.end) + "}";
    at = span.end;
  }
  return text + part(at, example.tokens.size());
}

/// The same of every example of a file.
std::vector<std::string> marked(std::string_view name, std::string_view bytes,
                                const DatasetOptions& options = {}, bool adds_bos = false) {
  const WordTokenizer tokenizer(adds_bos, kChatMl);
  std::vector<std::string> texts;
  for (const Example& example : read(name, bytes, options, tokenizer).examples) {
    texts.push_back(marked(example, tokenizer));
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("AG News rows become prompt and label", "[dataset]") {
  const char* const text = "\"3\",\"Oil up\",\"Prices rose.\"\n\"1\",\"Talks\",\"They met.\"\n";
  CHECK(marked("a.csv", text) ==
        Texts{"Article: Oil up Prices rose.\nTopic:{ Business}", "Article: Talks They met.\nTopic:{ World}"});
  const Dataset data = read("a.csv", text);
  CHECK(data.labels == Texts{"World", "Sports", "Business", "Science"});
  CHECK(data.examples[0].label == 2U);
  CHECK(data.examples[1].source_line == 2);
  CHECK(data.report.rows == 2);
  CHECK(data.report.notes.empty());
  CHECK(data.content_hash.size() == 64);
}

TEST_CASE("Byte order mark, CRLF, missing last line break and blank last lines change nothing", "[dataset]") {
  const auto expected = marked("a.csv", "1,a,b\n2,c,d\n");
  CHECK(marked("a.csv",
               "\xEF\xBB\xBF"
               "1,a,b\n2,c,d\n") == expected);
  CHECK(marked("a.csv", "1,a,b\r\n2,c,d\r\n") == expected);
  CHECK(marked("a.CSV", "1,a,b\n2,c,d") == expected);
  CHECK(marked("a.csv", "1,a,b\n2,c,d\n\n\n") == expected);
}

TEST_CASE("Columns come from a header or by name", "[dataset]") {
  CHECK(marked("a.csv", "Class Index,Title,Description\n2,a,b\n", {.labels = {"x", "y"}}) ==
        Texts{"Article: a b\nTopic:{ y}"});
  CHECK(marked("a.csv", "id,text,label\n7,hello,good\n8,oh,bad\n") ==
        Texts{"Article: 7 hello\nTopic:{ good}", "Article: 8 oh\nTopic:{ bad}"});
  CHECK(marked("a.csv", "id,text,kind\n7,hello,good\n", {.columns = {"kind", "text"}}) ==
        Texts{"Article: hello\nTopic:{ good}"});
  CHECK(marked("a.csv", "hello,good\n", {.columns = {"text", "label"}}) ==
        Texts{"Article: hello\nTopic:{ good}"});
  CHECK(marked("a.csv", "prompt,completion\nsay,so\n") == Texts{"say{so</s>}"});
  CHECK(read("a.csv", "x,label\na,10\nb,9\nc,10\n").labels == Texts{"9", "10"});
  CHECK_THROWS_WITH(read("a.csv", "id,text,kind\n1,a,b\n", {.columns = {"kind", "body"}}),
                    Contains("a.csv line 1: the header has no column \"body\""));
  CHECK_THROWS_WITH(read("a.csv", "1,a\n"), Contains("a.csv line 1: expected class,title,description"));
  CHECK_THROWS_WITH(read("a.csv", "1,a,b\n", {.columns = {"class", "title"}}),
                    Contains("2 columns are named"));
  CHECK_THROWS_WITH(read("a.jsonl", "{}\n", {.columns = {"x"}}), Contains(".csv files only"));
}

TEST_CASE("A long prompt is cut in the marked stretch, else at its start behind BOS", "[dataset]") {
  const char* const text = "1,one two three four,five\n";
  // "Article", ":", four words, "\n", "Topic", ":" and the answer: the prompt has 10 tokens.
  CHECK(marked("a.csv", text, {.sequence_length = 11}) ==
        Texts{"Article: one two three four five\nTopic:{ World}"});
  CHECK(marked("a.csv", text, {.sequence_length = 8}) == Texts{"Article: one two\nTopic:{ World}"});
  CHECK(marked("a.csv", text, {.sequence_length = 9}, true) == Texts{"<s>Article: one two\nTopic:{ World}"});
  CHECK(read("a.csv", text, {.sequence_length = 8}).report.prompts_cut == 1);
  CHECK(read("a.csv", text, {.sequence_length = 11}).report.prompts_cut == 0);
  DatasetOptions options{.sequence_length = 4};
  options.prompt = PromptTemplate::parse("{title} {description}", "t");
  CHECK(marked("a.csv", text, options) == Texts{" three four five{ World}"});
  CHECK(marked("a.csv", text, options, true) == Texts{"<s> four five{ World}"});
  options.sequence_length = 2;
  CHECK(marked("a.csv", text, options) == Texts{" five{ World}"});
}

TEST_CASE("No row is longer than asked for and no answer is ever cut", "[dataset][property]") {
  std::string text;
  for (int words = 0; words < 30; ++words) {
    std::string prompt = "p";
    std::string completion = "c";
    for (int i = 0; i < words; ++i) prompt += " p" + std::to_string(i);
    for (int i = 0; i < words % 7; ++i) completion += " c" + std::to_string(i);
    text += R"({"prompt":")" + prompt + R"(","completion":")" + completion + "\"}\n";
  }
  for (const bool adds_bos : {false, true}) {
    for (std::size_t length = 3; length < 40; ++length) {
      const WordTokenizer tokenizer(adds_bos);
      const Dataset data = read("a.jsonl", text, {.sequence_length = length}, tokenizer);
      CHECK(data.report.rows + data.report.answers_too_long == 30);
      for (const Example& example : data.examples) {
        REQUIRE(example.tokens.size() <= length);
        REQUIRE(example.supervised.size() == 1);
        REQUIRE(example.supervised[0].end == example.tokens.size());
        REQUIRE(example.answer_begin() >= 1);
        REQUIRE(example.tokens.size() - example.answer_begin() == (example.source_line - 1) % 7 + 2);
      }
    }
  }
}

TEST_CASE("Rows without an answer or with one that does not fit are counted by line", "[dataset]") {
  const Dataset data = read("train.csv", "1,a,b\n,c,d\n2,e,f\n3, ,\n");
  CHECK(data.report.rows == 2);
  CHECK(data.report.empty_answers == 2);
  CHECK(data.report.notes ==
        Texts{"train.csv line 2: left out: no class", "train.csv line 4: left out: a class but no text"});

  const Dataset answers =
      read("a.jsonl",
           "{\"prompt\":\"p\",\"completion\":\"a b c\"}\n{\"prompt\":\"p\",\"completion\":\" \"}\n"
           "{\"prompt\":\"p\",\"completion\":\"a b\"}\n",
           {.sequence_length = 4});
  CHECK(answers.report.rows == 1);
  CHECK(answers.report.answers_too_long == 1);
  CHECK(answers.report.empty_answers == 1);
  CHECK(answers.report.notes == Texts{"a.jsonl line 1: left out: the answer does not fit into 4 tokens",
                                      "a.jsonl line 2: left out: an empty answer"});
  CHECK_THROWS_WITH(read("a.csv", ",a,b\n,c,d\n"), Contains("no row to learn from (2 without an answer"));
}

TEST_CASE("JSONL prompts, texts and labelled rows", "[dataset]") {
  CHECK(marked("a.jsonl", "{\"prompt\":\"Say:\",\"completion\":\" so\"}\r\n{\"text\":\"one two\"}\n\n") ==
        Texts{"Say:{ so</s>}", "one{ two</s>}"});
  CHECK(marked("a.jsonl", "{\"prompt\":\"Say:\",\"completion\":\" so\"}", {.append_eos = false}) ==
        Texts{"Say:{ so}"});
  CHECK(marked("a.jsonl", "{\"text\":\"hello\",\"label\":1}\n", {.labels = {"good", "bad"}}) ==
        Texts{"Article: hello\nTopic:{ good}"});
  CHECK(marked("a.jsonl", "{\"prompt\":\"\",\"completion\":\"a b\"}") == Texts{"{a b</s>}"});
}

TEST_CASE("Long texts are split so that every token but the first is learned once", "[dataset]") {
  const DatasetOptions options{.sequence_length = 3};
  CHECK(marked("a.txt", "a b c d e", options) == Texts{"a{ b c}", " c{ d e}", " e{</s>}"});
  CHECK(marked("a.txt", "a b c d e", options, true) == Texts{"<s>{a b}", " b{ c d}", " d{ e</s>}"});
  const Dataset data = read("a.txt", "a\nb\nc\nd\n", options);
  CHECK(data.report.texts_split == 1);
  CHECK(data.examples[0].source_line == 1);
  CHECK(data.examples[1].source_line == 2);
  CHECK(data.examples[2].source_line == 3);
  CHECK(read("a.txt", "a b c d e", {.sequence_length = 3, .limit = 2}).examples.size() == 2);
}

TEST_CASE("Conversations learn the assistant's turns and keep the last answer whole", "[dataset]") {
  const char* const talk =
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b c"},)"
      R"({"role":"user","content":"d"},{"role":"assistant","content":"e"}]})";
  CHECK(marked("a.jsonl", talk) ==
        Texts{"<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b c<|im_end|>}\n"
              "<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n{e<|im_end|>}\n"});
  // 25 tokens in all; the first answer begins at 9.
  CHECK(marked("a.jsonl", talk, {.sequence_length = 17})[0] ==
        "\n{b c<|im_end|>}\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n{e<|im_end|>}\n");
  CHECK(marked("a.jsonl", talk, {.sequence_length = 16})[0] ==
        "\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n{e<|im_end|>}\n");
  CHECK(marked("a.jsonl", talk, {.sequence_length = 6})[0] == "<|im_start|>assistant\n{e<|im_end|>}\n");
  CHECK(marked("a.jsonl", talk, {.sequence_length = 4})[0] == "\n{e<|im_end|>}\n");
  CHECK_THROWS_WITH(read("a.jsonl", talk, {.sequence_length = 3}), Contains("1 too long"));
  CHECK_THROWS_WITH(read("a.jsonl", talk, {}, WordTokenizer()),
                    Contains("a.jsonl line 1") && Contains("chat template"));
  CHECK_THROWS_WITH(read("a.jsonl", R"({"messages":[{"role":"user","content":"a"}]})"),
                    Contains("1 without an answer"));
}

TEST_CASE("Broken rows are refused with file and line, or counted", "[dataset]") {
  struct Case {
    std::string name;
    std::string bad_line;
    std::string reason;
  };
  const std::vector<Case> cases{
      {"a.csv", "5,x,y", "unknown class \"5\" (allowed: World, Sports, Business, Science"},
      {"a.csv", "Tech,x,y", "unknown class \"Tech\""},
      {"a.csv", "1,x", "has 2 fields where the first row has 3"},
      {"a.csv", "1,\"x,y", "a quoted field does not end"},
      {"a.csv", "1,caf\xE9,y", "byte 0xE9 at offset 3 is not UTF-8"},
      {"a.csv", "1,\xED\xA0\x80,y", "byte 0xED at offset 0 is not UTF-8"},
      {"a.csv", "", "a blank line between rows"},
      {"a.jsonl", "{\"text\":\"x\"", "not JSON"},
      {"a.jsonl", "[1]", "not a JSON object"},
      {"a.jsonl", "{\"prompt\":\"x\"}", "without \"completion\""},
      {"a.jsonl", "{\"completion\":\"x\"}", "without \"prompt\""},
      {"a.jsonl", "{\"prompt\":1,\"completion\":\"x\"}", "\"prompt\" is not a string"},
      {"a.jsonl", "{\"text\":null}", "\"text\" is not a string"},
      {"a.jsonl", "{\"other\":1}", "needs \"prompt\""},
      {"a.jsonl", "{\"text\":\"\xC0\x80\"}", "byte 0xC0"},
      {"a.jsonl", "{\"text\":\"\\ud800\"}", "not JSON"},
      {"a.jsonl", "{\"messages\":{}}", "not an array"},
      {"a.jsonl", "{\"messages\":[{\"role\":\"user\"}]}", "\"role\" and \"content\""},
      {"a.jsonl", "{\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}", "unknown role \"king\""},
      {"a.jsonl", "{\"messages\":[]}", "without messages"},
      {"a.jsonl", "", "a blank line between rows"},
      {"a.txt", "caf\xE9 x", "byte 0xE9"},
  };
  for (const Case& c : cases) {
    INFO(c.name << " " << c.bad_line);
    const std::string good = c.name == "a.csv" ? "1,a,b" : c.name == "a.txt" ? "a b" : "{\"text\":\"a b\"}";
    const std::string text = good + "\n" + c.bad_line + "\n" + good + "\n";
    CHECK_THROWS_AS(read(c.name, text), InputError);
    CHECK_THROWS_WITH(read(c.name, text),
                      Contains(c.name + " line 2: ") && Contains(c.reason) && !Contains("\n"));
    const Dataset data = read(c.name, text, {.skip_bad_rows = true});
    CHECK(data.report.bad_rows == 1);
    CHECK(data.report.rows == (c.name == "a.txt" ? 1 : 2));
    REQUIRE(data.report.notes.size() == 1);
    CHECK_THAT(data.report.notes[0], Contains(c.name + " line 2: left out: ") && Contains(c.reason));
  }
}

TEST_CASE("Files and options that cannot be used are refused", "[dataset]") {
  const WordTokenizer tokenizer;
  CHECK_THROWS_WITH(read_dataset("/nowhere/a.csv", tokenizer, {}), EndsWith("a.csv: no such data file"));
  CHECK_THROWS_WITH(read_dataset(std::filesystem::temp_directory_path(), tokenizer, {}),
                    Contains("no such data file"));
  CHECK_THROWS_WITH(read("a.parquet", "PAR1"), Contains("\".parquet\"") && Contains(".jsonl"));
  for (const char* name : {"a.csv", "a.jsonl", "a.txt"}) {
    CHECK_THROWS_WITH(read(name, ""), EndsWith("is empty"));
    CHECK_THROWS_WITH(read(name, "\xEF\xBB\xBF\n\n"), EndsWith("is empty"));
    CHECK_THROWS_WITH(read(name,
                           "\xFF\xFE"
                           "a"),
                      Contains("UTF-16"));
  }
  CHECK_THROWS_WITH(read("a.csv", "class,text\n"), Contains("no row to learn from"));
  CHECK_THROWS_WITH(read("a.csv", "1,a,b\n", {.sequence_length = 1}), Contains("2 or more tokens"));
  CHECK_THROWS_WITH(read("a.csv", "1,a,b\n", {.labels = {"x", "x"}}), Contains("given twice"));
  CHECK_THROWS_WITH(read("a.csv", "1,a,b\n", {.labels = {"x", ""}}), Contains("empty"));
  DatasetOptions options;
  options.prompt = PromptTemplate::parse("{headline}", "t");
  CHECK_THROWS_WITH(read("a.csv", "1,a,b\n", options), Contains("line 1") && Contains("\"headline\""));
  CHECK_THROWS_WITH(read("a.txt", "a b", options), Contains("template has no place"));
}

TEST_CASE("The limit counts examples, and the hash names what training sees", "[dataset]") {
  const char* const text = "1,a,b\n,x,y\n2,c,d\n9,broken,row\n";
  const Dataset two = read("a.csv", text, {.limit = 2});
  CHECK(two.report.rows == 2);
  CHECK(two.report.empty_answers == 1);
  CHECK(two.content_hash == read("a.csv", text, {.limit = 2}).content_hash);
  CHECK(two.content_hash != read("a.csv", text, {.limit = 1}).content_hash);
  CHECK(two.content_hash != read("a.csv", text, {.sequence_length = 6, .limit = 2}).content_hash);
  CHECK(two.content_hash != read("a.csv", text, {.labels = {"W", "S"}, .limit = 2}).content_hash);
}

}  // namespace
}  // namespace zerolock
