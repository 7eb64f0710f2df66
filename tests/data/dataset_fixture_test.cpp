/// Data sets against the reference: the prompts' ids of AG News, and the label masks of the training
/// fixtures.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/batch_plan.hpp"
#include "data/csv.hpp"
#include "data/dataset.hpp"
#include "data/label_answers.hpp"
#include "tensors/files/safetensors.hpp"
#include "tests/data/word_tokenizer.hpp"

namespace zerolock {
namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> integers(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensor(name);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    values.push_back(tensor.format() == StorageFormat::i32
                         ? reinterpret_cast<const std::int32_t*>(tensor.data())[i]
                         : reinterpret_cast<const std::int64_t*>(tensor.data())[i]);
  }
  return values;
}

std::vector<std::int64_t> listed_rows(const fs::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream)
      .at("agnews_all_rows_where_transformers_gguf_loader_differs")
      .get<std::vector<std::int64_t>>();
}

const fs::path kShared = ZEROLOCK_SHARED;
const fs::path kModel = kShared / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

bool shared_is_missing() {
  if (fs::exists(kModel)) return false;
  WARN("skipped: the shared data folder is missing");
  return true;
}

TEST_CASE("AG News prompts have the reference's ids, cut where the reference cuts", "[dataset][fixture]") {
  if (shared_is_missing()) return;
  const auto tokenizer = Tokenizer::open(kModel);
  const auto file = SafetensorsFile::open(kShared / "fixtures/smollm2/agnews_ids.safetensors");
  const Dataset data = read_dataset(kShared / "data/agnews/test.csv", *tokenizer, {});
  REQUIRE(data.examples.size() == 7600);
  REQUIRE(data.report.prompts_cut > 0);

  const std::vector<std::int64_t> train_rows = integers(*file, "train.csv_row");
  std::vector<std::int64_t> rows = train_rows;
  std::vector<std::int64_t> differing;
  std::size_t cut = 0;
  for (const std::string part : {"train.", "eval."}) {
    const auto ids = integers(*file, part + "ids");
    const auto offsets = integers(*file, part + "offsets");
    const auto labels = integers(*file, part + "label_token");
    if (part == "eval.") {
      rows.resize(labels.size());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
    }
    REQUIRE(rows.size() == labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const Example& example = data.examples[static_cast<std::size_t>(rows[i])];
      std::vector<TokenId> expected(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
      cut += expected.size() == 127 ? 1 : 0;
      expected.push_back(labels[i]);
      if (example.tokens != expected) differing.push_back(rows[i]);
      REQUIRE(example.tokens.size() <= 128);
      REQUIRE(example.tokens.back() == labels[i]);
      REQUIRE(example.supervised.size() == 1);
      REQUIRE(example.answer_begin() == example.tokens.size() - 1);
    }
  }
  CHECK(cut == 17);
  // The reference ids come from a loader that leaves out the digit split; the fixtures list the rows where
  // that matters.
  std::vector<std::int64_t> expected_rows;
  for (const std::int64_t row : listed_rows(kShared / "fixtures/smollm2/tokenizer_ids.json")) {
    if (row < 400 || std::count(train_rows.begin(), train_rows.end(), row) == 1) expected_rows.push_back(row);
  }
  CHECK(expected_rows.size() == 7);
  std::sort(differing.begin(), differing.end());
  CHECK(differing == expected_rows);
  const std::vector<std::string> labels{"World", "Sports", "Business", "Science"};
  CHECK(label_token_ids(*tokenizer, labels) == std::vector<TokenId>{2260, 15278, 8460, 3191});
}

TEST_CASE("Label masks give the reference's supervised positions", "[batch_plan][fixture]") {
  const auto file = SafetensorsFile::open(fs::path(ZEROLOCK_TEST_FIXTURES) / "CD_data.safetensors");
  std::size_t unpredicted_first_labels = 0;
  std::size_t sequences_without_labels = 0;
  for (int m = 0; m < 12; ++m) {
    const std::string name = "mb" + std::to_string(m) + ".";
    const auto ids = integers(*file, name + "input_ids");
    const auto mask = integers(*file, name + "attention_mask");
    const auto labels = integers(*file, name + "labels");
    constexpr std::size_t kWidth = 24;
    std::vector<Example> examples;
    std::vector<std::int64_t> targets;
    for (std::size_t row = 0; row < 2; ++row) {
      Example example;
      const std::size_t before = targets.size();
      for (std::size_t t = 0; t < kWidth && mask[row * kWidth + t] == 1; ++t) {
        example.tokens.push_back(ids[row * kWidth + t]);
        if (labels[row * kWidth + t] == -100) continue;
        CHECK(labels[row * kWidth + t] == ids[row * kWidth + t]);
        const bool adjoins = !example.supervised.empty() && example.supervised.back().end == t;
        if (!adjoins) example.supervised.push_back({t, t});
        example.supervised.back().end = t + 1;
        if (t > 0) targets.push_back(labels[row * kWidth + t]);
        unpredicted_first_labels += t == 0 ? 1 : 0;
      }
      sequences_without_labels += targets.size() == before ? 1 : 0;
      examples.push_back(std::move(example));
    }
    const std::vector<const Example*> both{&examples[0], &examples[1]};
    const PackedExamples packed = pack_examples(both);
    CHECK(packed.layout->targets == targets);
    const auto* packed_ids = packed.token_ids.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      CHECK(packed_ids[packed.layout->supervised_rows[i] + 1] == targets[i]);
    }
  }
  CHECK(unpredicted_first_labels == 1);  // micro-batch 3, row 0
  CHECK(sequences_without_labels == 1);  // micro-batch 6, row 1
}

TEST_CASE("The example topics are balanced, and held-out rows share no text with training rows",
          "[dataset][examples]") {
  const fs::path folder = fs::path(ZEROLOCK_TEST_FIXTURES) / "../../configs/examples";
  const WordTokenizer tokenizer;
  std::set<std::string> trained_sentences;
  for (const auto& [name, rows] : std::vector<std::pair<std::string, std::size_t>>{
           {"topics-train.csv", 720}, {"topics-held-out.csv", 224}}) {
    const Dataset data = read_dataset(folder / name, tokenizer, {});
    CHECK(data.report.rows == rows);
    CHECK(data.report.prompts_cut == 0);
    CHECK(data.report.notes.empty());
    std::vector<std::size_t> of_class(4, 0);
    for (const Example& example : data.examples) ++of_class.at(example.label.value());
    CHECK(of_class == std::vector<std::size_t>(4, rows / 4));

    std::ifstream stream(folder / name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    CsvReader reader(text);
    while (const auto row = reader.next()) {
      for (std::string sentences = row->fields[1] + ". " + row->fields[2] + " "; !sentences.empty();) {
        const std::size_t end = sentences.find(". ");
        const std::string sentence = sentences.substr(0, end);
        sentences.erase(0, end == std::string::npos ? end : end + 2);
        if (rows == 720) {
          trained_sentences.insert(sentence);
        } else if (!sentence.empty()) {
          CHECK(trained_sentences.count(sentence) == 0);
        }
      }
    }
  }
  CHECK(trained_sentences.size() > 1500);
}

}  // namespace
}  // namespace zerolock
