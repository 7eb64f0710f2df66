/// Prompt templates, chat templates and the ids of answers.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "data/chat_template.hpp"
#include "data/label_answers.hpp"
#include "data/prompt_template.hpp"
#include "tensors/base/error.hpp"
#include "tests/data/word_tokenizer.hpp"

namespace zerolock {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("A prompt template fills fields in three pieces", "[template]") {
  const auto prompt = PromptTemplate::parse("Article: [[{Title} { description }]]\nTopic {{x}}:\n", "t");
  CHECK(prompt.fields() == std::vector<std::string>{"title", "description"});
  CHECK(prompt.has_cut_mark());
  const auto filled = prompt.fill({{"title", "A {b}"}, {"description", "[[c]]"}});
  CHECK(filled.head == "Article: ");
  CHECK(filled.middle == "A {b} [[c]]");
  CHECK(filled.tail == "\nTopic {x}:");
  CHECK(prompt.answer("World", " ", {}) == " World");

  const auto unmarked = PromptTemplate::parse("{prompt}", "t").fill({{"prompt", "p"}});
  CHECK(unmarked.head == "p");
  CHECK(unmarked.middle.empty());
  CHECK(unmarked.tail.empty());
  CHECK(PromptTemplate::parse("a ]] b", "t").fill({}).head == "a ]] b");
}

TEST_CASE("A template may say how an answer is written", "[template]") {
  const auto prompt = PromptTemplate::parse("Q: {q}\nA:  {answer}. ({note})", "t");
  CHECK(prompt.fill({{"q", "why"}}).head == "Q: why\nA:");
  CHECK(prompt.answer("so", " ", {{"note", "n"}}) == "  so. (n)");
  CHECK_THROWS_WITH(prompt.class_answer("so"), Contains("note"));
  CHECK(PromptTemplate::parse("{x}{answer}", "t").class_answer("so") == "so");
}

TEST_CASE("Broken templates are refused with the place", "[template]") {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"a {b", "\"{\" without \"}\" (write \"{{\" for a brace) at character 3"},
           {"a } b", "lone"},
           {"{}", "without a field's name"},
           {"[[a]] [[b]]", "second \"[[\""},
           {"[[a", "without \"]]\""},
           {"{answer}{answer}", "second {answer}"},
           {"[[{answer}]]", "inside"},
           {"{answer} [[a]]", "behind {answer}"}}) {
    INFO(text);
    CHECK_THROWS_WITH(PromptTemplate::parse(text, "my.template"),
                      Contains("my.template: ") && Contains(part));
  }
  CHECK_THROWS_WITH(PromptTemplate::parse("{a}", "t").fill({{"b", ""}, {"c", ""}}),
                    Contains("\"a\"") && Contains("it has: b, c"));
}

TEST_CASE("Restricted readouts take labels of one token each", "[labels]") {
  const WordTokenizer tokenizer(true);
  const std::vector<std::string> labels{"World", "Sports"};
  CHECK(label_token_ids(tokenizer, labels) ==
        std::vector<TokenId>{tokenizer.encode(" World", false)[0], tokenizer.encode(" Sports", false)[0]});
  CHECK_THROWS_WITH(label_token_ids(tokenizer, std::vector<std::string>{"World", "Sci-Tech"}),
                    Contains("\"Sci-Tech\"") && Contains("3 tokens"));
  CHECK_THROWS_WITH(label_token_ids(tokenizer, std::vector<std::string>{"World", "World"}),
                    Contains("same token"));
  const auto bare = PromptTemplate::parse("{x}:{answer}", "t");
  CHECK(label_token_ids(tokenizer, labels, &bare)[0] == tokenizer.encode("World", false)[0]);
  CHECK(label_answers(tokenizer, std::vector<std::string>{"Sci-Tech"})[0].size() == 3);
}

/// Puts a mark before every text of its own, as sentencepiece does with its blank.
class MarkingTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids{1000};
    ids.insert(ids.end(), text.begin(), text.end());
    return ids;
  }
  [[nodiscard]] std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 1001; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return std::nullopt; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return std::nullopt; }
  [[nodiscard]] std::optional<std::string> chat_template() const override { return std::nullopt; }
};

TEST_CASE("A continuation has no beginning of its own", "[labels]") {
  CHECK(encode_continuation(MarkingTokenizer(), "ab") == std::vector<TokenId>{'a', 'b'});
  CHECK(encode_continuation(WordTokenizer(), "").empty());
}

const char* const kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\n"
    "You are a bot<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

/// The rendered text, supervised stretches in curly brackets.
std::string marked(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const auto& stretch : chat.render(messages)) {
    std::string part = stretch.text;
    if (stretch.kind == ChatTemplate::Stretch::Kind::kBos) part = "<s>";
    if (stretch.kind == ChatTemplate::Stretch::Kind::kEos) part = "</s>";
    text += stretch.supervised ? "{" + part + "}" : part;
  }
  return text;
}

const std::vector<ChatMessage> kTalk{
    {"system", "Be kind."}, {"user", "Hi"}, {"assistant", "Hello "}, {"user", "Bye"}, {"assistant", "Ciao"}};

TEST_CASE("ChatML conversations", "[chat]") {
  const auto chat = ChatTemplate::recognise(kSmolLm2, "t");
  CHECK(chat.style() == ChatTemplate::Style::kChatMl);
  CHECK(marked(chat, kTalk) ==
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        "{Hello <|im_end|>}\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n{Ciao<|im_end|>}\n");
  CHECK(marked(chat, {{"user", "Hi"}, {"assistant", ""}}) ==
        "<|im_start|>system\nYou are a bot<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        "<|im_end|>\n");
  const auto escaped = ChatTemplate::recognise("'<|im_start|>system\\nA default.<|im_end|>\\n'", "t");
  CHECK(marked(escaped, {{"user", "Hi"}}) ==
        "<|im_start|>system\nA default.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
  const auto plain = ChatTemplate::recognise("'<|im_start|>' + message['role']", "t");
  CHECK(marked(plain, {{"user", "Hi"}}) == "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("Llama 2 conversations", "[chat]") {
  const auto chat = ChatTemplate::recognise("... '[INST] ' ... '<<SYS>>\\n' ...", "t");
  CHECK(marked(chat, kTalk) ==
        "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST]{ Hello }{</s>}<s>[INST] Bye [/INST]{ Ciao "
        "}{</s>}");
  CHECK(marked(chat, {{"user", "Hi"}}) == "<s>[INST] Hi [/INST]");
  CHECK_THROWS_WITH(chat.render(std::vector<ChatMessage>{{"user", "a"}, {"user", "b"}}), Contains("in turn"));
}

TEST_CASE("Llama 3 conversations", "[chat]") {
  const auto chat = ChatTemplate::recognise("'<|start_header_id|>' + message['role']", "t");
  CHECK(marked(chat, {{"user", " Hi\n"}, {"assistant", "Yo"}}) ==
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_"
        "id|>\n\n"
        "{Yo<|eot_id|>}");
}

TEST_CASE("Other chat templates and broken conversations are refused", "[chat]") {
  CHECK_THROWS_WITH(ChatTemplate::recognise(std::nullopt, "f line 3"),
                    Contains("f line 3") && Contains("has none"));
  for (const char* other : {"{{ '[INST] ' + x }}", "<|im_start|> <think>", "<|user|>",
                            "<|start_header_id|> Cutting Knowledge Date"}) {
    CHECK_THROWS_WITH(ChatTemplate::recognise(other, "t"), Contains("ChatML") && Contains("Llama 3"));
  }
  const auto chat = ChatTemplate::recognise(kSmolLm2, "t");
  CHECK_THROWS_WITH(chat.render({}), Contains("without messages"));
  CHECK_THROWS_WITH(chat.render(std::vector<ChatMessage>{{"tool", "x"}}), Contains("\"tool\""));
}

}  // namespace
}  // namespace zerolock
