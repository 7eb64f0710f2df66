// What comes out of a model through the binary: evaluation against reference numbers, text, inspection,
// adapters.

#include <ATen/ATen.h>

#include "tensors/files/adapter_files.hpp"
// After LibTorch: Catch's macros must win over those of its logging.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

/// Replaces the tokenizer by one in which the text "<t17>" is token 17, whatever stands around it.
void write_numbered_tokenizer(const std::filesystem::path& file) {
  json vocabulary;
  json added = json::array();
  for (int id = 0; id < 320; ++id) {
    const std::string text = "<t" + std::to_string(id) + ">";
    vocabulary[text] = id;
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", false}});
  }
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  write_text(file, json({{"version", "1.0"},
                         {"added_tokens", added},
                         {"normalizer", nullptr},
                         {"pre_tokenizer", byte_level},
                         {"post_processor", nullptr},
                         {"decoder", byte_level},
                         {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}})
                       .dump());
}

std::string numbered_text(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) text += "<t" + std::to_string(id) + ">";
  return text;
}

}  // namespace

TEST_CASE("evaluate gives the NLL of transformers and PEFT on the reference adapters") {
  int compared = 0;
  // Each row is a prompt and an answer that is its class, so that nothing is added to either.
  for (const std::string model : {"tiny-llama", "tiny-qwen2"}) {
    for (const std::string tag : {"qv", "all7", "qv-rslora"}) {
      const std::string fixture = std::string(ZEROLOCK_TEST_FIXTURES) + "/B_lora_" + model + "_" + tag;
      const std::string adapter =
          std::string(ZEROLOCK_TEST_FIXTURES) + "/models/" + model + "/adapters/" + tag;
      if (!std::filesystem::exists(fixture + ".safetensors") || !std::filesystem::exists(adapter)) continue;
      const auto file = zerolock::SafetensorsFile::open(fixture + ".safetensors");
      const at::Tensor ids = file->tensor("input_ids").expand(at::kDouble).to(at::kLong);
      const at::Tensor labels = file->tensor("labels").expand(at::kDouble).to(at::kLong);
      const at::Tensor mask = file->tensor("attention_mask").expand(at::kDouble).to(at::kLong);
      std::string rows = "class,prompt\n";
      std::string names;
      for (std::int64_t row = 0; row < ids.size(0); ++row) {
        std::vector<std::int64_t> prompt;
        std::vector<std::int64_t> answer;
        for (std::int64_t i = 0; i < ids.size(1); ++i) {
          if (mask[row][i].item<std::int64_t>() == 0) continue;
          const bool supervised = labels[row][i].item<std::int64_t>() != -100;
          (supervised ? answer : prompt).push_back(ids[row][i].item<std::int64_t>());
        }
        rows += numbered_text(answer) + "," + numbered_text(prompt) + "\n";
        names += (row == 0 ? "" : ",") + numbered_text(answer);
      }
      const TinyWorkplace place(model);
      write_numbered_tokenizer(place.path("model") / "tokenizer.json");
      write_text(place.path("rows.csv"), rows);
      write_text(place.path("template.txt"), "{prompt}{answer}");
      const CommandOutput output = run_zerolock(
          {"evaluate", "--model", place.model(), "--adapter", adapter, "--data", place.rows(), "--template",
           place.text_path("template.txt"), "--labels", names, "--log-level", "error", "--json"});
      INFO(model << " " << tag << ": " << output.err);
      REQUIRE(output.status == 0);
      const json reference = json::parse(read_text(std::string(ZEROLOCK_TEST_FIXTURES) + "/B_lora.json"));
      const json result = json::parse(output.out);
      CHECK(result["examples"] == 3);
      CHECK(result["nll"].get<double>() ==
            Approx(reference["cases"][model + "_" + tag]["loss_f64"].get<double>()).margin(1e-5));
      ++compared;
    }
  }
  CHECK(compared >= 3);
}

TEST_CASE("training on classes raises accuracy on them, and evaluation does not depend on threads") {
  const TinyWorkplace place;
  const auto evaluate = [&](const std::vector<std::string>& more) {
    const CommandOutput output =
        run_zerolock(std::vector<std::string>{"evaluate", "--model", place.model(), "--data", place.rows(),
                                              "--labels", "up,no,hi,go", "--seq", "64", "--json"} +
                     more);
    INFO(output.err);
    REQUIRE(output.status == 0);
    return json::parse(output.out);
  };
  const json before = evaluate({});
  CHECK(evaluate({"--threads", "1"}) == before);
  CHECK(evaluate({"--threads", "3"}) == before);
  CHECK(before["examples"] == 40);
  REQUIRE(run_zerolock(place.train("run", {"--epochs", "12", "--lr", "1e-2", "--head", "restricted",
                                           "--targets", "q_proj,k_proj,v_proj,o_proj,up_proj"}))
              .status == 0);
  const json after = evaluate({"--adapter", place.text_path("run/adapter")});
  CHECK(after["accuracy"].get<double>() > before["accuracy"].get<double>() + 0.2);
  CHECK(after["nll_label"].get<double>() < before["nll_label"].get<double>() - 0.3);
  // The last stage's readout is the model's own; an inner one is another.
  const json last = evaluate({"--stages", "3", "--stage", "2", "--adapter", place.text_path("run/adapter")});
  CHECK(last == after);
  const json inner = evaluate({"--stages", "3", "--stage", "0", "--adapter", place.text_path("run/adapter")});
  CHECK(inner["nll_label"] != after["nll_label"]);
}

TEST_CASE("generate is greedy by default, seeded otherwise, and starts from nothing with BOS") {
  const TinyWorkplace place;
  const auto generate = [&](const std::vector<std::string>& more) {
    const CommandOutput output =
        run_zerolock(std::vector<std::string>{"generate", "--model", place.model(), "--json"} + more);
    INFO(output.err);
    REQUIRE(output.status == 0);
    return json::parse(output.out);
  };
  const json greedy = generate({"--prompt", "up and down", "--max-tokens", "12"});
  CHECK(greedy == generate({"--prompt", "up and down", "--max-tokens", "12"}));
  CHECK(greedy["tokens"].size() <= 12);
  CHECK(greedy ==
        generate({"--prompt", "up and down", "--max-tokens", "12", "--temperature", "1", "--top-k", "1"}));
  const std::vector<std::string> sampled{"--prompt",      "up",  "--max-tokens", "30",
                                         "--temperature", "1.5", "--seed"};
  CHECK(generate(sampled + std::vector<std::string>{"1"}) ==
        generate(sampled + std::vector<std::string>{"1"}));
  CHECK(generate(sampled + std::vector<std::string>{"1"}) !=
        generate(sampled + std::vector<std::string>{"2"}));
  CHECK(generate({"--max-tokens", "3"})["prompt_tokens"] == json({1}));
  // 508 bytes and four tokens of room.
  const json full =
      generate({"--prompt", std::string(508, 'x'), "--max-tokens", "100", "--temperature", "0"});
  CHECK((full["stopped_by"] == "context" || full["stopped_by"] == "end"));
  CHECK(full["tokens"].size() <= 5);
}

TEST_CASE("the cache does not change what is generated") {
  const TinyWorkplace place;
  const auto next = [&](const std::string& prompt, const char* count) {
    return json::parse(run_zerolock({"generate", "--model", place.model(), "--json", "--prompt", prompt,
                                     "--max-tokens", count})
                           .out);
  };
  const json whole = next("hello", "6");
  // The tokens of the prompt and of what was written, without a cache from before.
  for (std::size_t count = 1; count < whole["tokens"].size(); ++count) {
    const json first = next("hello", std::to_string(count).c_str());
    CHECK(std::equal(first["tokens"].begin(), first["tokens"].end(), whole["tokens"].begin()));
  }
}

TEST_CASE("inspect shows what is there, and that damage is damage") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("run", {"--windows", "2"})).status == 0);
  const auto inspect = [&](const std::string& path, int status) {
    const CommandOutput output = run_zerolock({"inspect", path, "--json"});
    INFO(path << ": " << output.err);
    CHECK(output.status == status);
    return output.out.empty() ? json() : json::parse(output.out);
  };
  CHECK(inspect(place.model(), 0)["kind"] == "model");
  CHECK(inspect(place.text_path("model/model.safetensors"), 0)["kind"] == "safetensors");
  CHECK(inspect(place.text_path("run/adapter"), 0)["targets"] == json({"q_proj", "v_proj"}));
  CHECK(inspect(place.text_path("run/adapter/"), 0)["kind"] == "adapter");
  const json run = inspect(place.text_path("run"), 0);
  CHECK(run["kind"] == "run");
  CHECK(run["checkpoints"]["durable"] == 2);
  CHECK(inspect(place.text_path("run/checkpoints/2-2-2"), 0)["kind"] == "checkpoints");
  CHECK(run_zerolock({"inspect", place.text_path("run")}).out.find("durable: 2") != std::string::npos);

  const auto weights = place.path("run") / "adapter" / "adapter_model.safetensors";
  std::string bytes = read_text(weights);
  bytes.back() ^= 1;
  write_text(weights, bytes);
  const json damaged = inspect(place.text_path("run"), 1);
  CHECK(damaged["good"] == false);
  CHECK(damaged["problems"].size() == 1);
  inspect(place.text_path("rows.csv"), 2);
  std::filesystem::resize_file(place.path("model") / "model.safetensors", 1000);
  inspect(place.model(), 1);
}

TEST_CASE("the adapter has the names and shapes of one that PEFT made") {
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("run", {"--windows", "1"})).status == 0);
  const auto ours = zerolock::read_adapter(place.path("run") / "adapter");
  const auto theirs =
      zerolock::read_adapter(std::string(ZEROLOCK_TEST_FIXTURES) + "/models/tiny-llama/adapters/qv");
  REQUIRE(ours.tensors.size() == theirs.tensors.size());
  for (const auto& [name, tensor] : theirs.tensors) {
    INFO(name);
    REQUIRE(ours.tensors.count(name) == 1);
    CHECK(ours.tensors.at(name).sizes() == tensor.sizes());
  }
}

TEST_CASE("PEFT loads the adapter without missing or unexpected keys") {
  if (std::system("python3 -c 'import torch, transformers, peft' >/dev/null 2>&1") != 0) {
    WARN("skipped: python3 has no torch, transformers and peft here");
    return;
  }
  const TinyWorkplace place;
  REQUIRE(run_zerolock(place.train("run", {"--windows", "2"})).status == 0);
  write_text(place.path("load.py"), R"(
import sys, warnings
warnings.filterwarnings("error", message=".*keys.*")  # PEFT only warns of missing and unexpected ones
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
base = AutoModelForCausalLM.from_pretrained(sys.argv[1])
model = PeftModel.from_pretrained(base, sys.argv[2])
held = {name.replace(".default", ""): value for name, value in model.state_dict().items() if "lora_" in name}
written = load_file(sys.argv[2] + "/adapter_model.safetensors")
assert set(held) == set(written), set(held) ^ set(written)
assert all((held[name] == written[name]).all() for name in written)
)");
  const std::string command = "python3 '" + place.text_path("load.py") + "' '" + place.model() + "' '" +
                              place.text_path("run/adapter") + "'";
  CHECK(std::system(command.c_str()) == 0);
}
