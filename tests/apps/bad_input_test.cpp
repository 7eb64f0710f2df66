// Bad input of every kind ends as status 2, one line that names it, and nothing written.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;

namespace {

/// The run is refused and leaves no folder.
void check_train_refused(const TinyWorkplace& place, const std::string& text,
                         const std::vector<std::string>& more = {}) {
  check_refused(run_zerolock(place.train("run", more)), text);
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}

void edit_config(const TinyWorkplace& place, const std::string& key, const nlohmann::json& value) {
  const auto file = place.path("model") / "config.json";
  auto config = nlohmann::json::parse(read_text(file));
  if (value.is_null()) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  write_text(file, config.dump());
}

}  // namespace

TEST_CASE("required options are asked for by name") {
  const TinyWorkplace place;
  check_refused(run_zerolock({"train"}), "--model: is required");
  check_refused(run_zerolock({"train", "--model", place.model()}), "--data: is required");
  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.rows()}),
                "--out: is required");
  check_refused(run_zerolock({"evaluate"}), "--model: is required");
  check_refused(run_zerolock({"generate"}), "--model: is required");
  check_refused(run_zerolock({"inspect"}), "needs a FILE");
}

TEST_CASE("broken model folders are refused by file and key") {
  const TinyWorkplace place;
  const auto config = place.path("model") / "config.json";
  const auto weights = place.path("model") / "model.safetensors";
  SECTION("no config.json") {
    std::filesystem::remove(config);
    check_train_refused(place, "config.json");
  }
  SECTION("unknown model_type") {
    edit_config(place, "model_type", "mamba");
    check_train_refused(place, "mamba");
  }
  SECTION("missing key") {
    edit_config(place, "num_hidden_layers", nullptr);
    check_train_refused(place, "num_hidden_layers");
  }
  SECTION("unknown rope type") {
    edit_config(place, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}});
    check_train_refused(place, "yarn");
  }
  SECTION("weights missing") {
    std::filesystem::remove(weights);
    check_train_refused(place, "safetensors");
  }
  SECTION("weights cut short") {
    std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
    check_train_refused(place, "model.safetensors");
  }
  SECTION("a header longer than the file") {
    std::string text = read_text(weights);
    text.replace(0, 8, std::string("\xff\xff\xff\xff\xff\xff\xff\x0f", 8));
    write_text(weights, text);
    check_train_refused(place, "model.safetensors");
  }
  SECTION("no tokenizer") {
    std::filesystem::remove(place.path("model") / "tokenizer.json");
    check_train_refused(place, "neither tokenizer.json nor tokenizer.model");
  }
  SECTION("no such folder") {
    check_refused(run_zerolock({"train", "--model", place.text_path("none"), "--data", place.rows(), "--out",
                                place.text_path("run")}),
                  "none");
  }
  SECTION("not a GGUF file") {
    write_text(place.path("bad.gguf"), "GGML and nothing else");
    check_refused(run_zerolock({"generate", "--model", place.text_path("bad.gguf")}), "bad.gguf");
  }
}

TEST_CASE("a tokenizer that does not fit the model is refused") {
  const TinyWorkplace place;
  const auto file = place.path("model") / "tokenizer.json";
  auto tokenizer = nlohmann::json::parse(read_text(file));
  tokenizer["model"]["vocab"]["zzz"] = 5000;
  write_text(file, tokenizer.dump());
  check_train_refused(place, "do not fit each other: the tokenizer's largest id 5000");
}

TEST_CASE("broken rows are refused by line, or left out with a warning") {
  const TinyWorkplace place;
  const auto refused = [&](const std::string& rows, const std::string& message) {
    write_text(place.path("rows.csv"), rows);
    check_train_refused(place, message);
  };
  refused("", "rows.csv");
  refused("class,title,description\nup,a,b\nup,a\n", "line 3");
  refused("class,title,description\nup,a,b\nsideways,a,b\n", "line 3");
  refused("class,title,description\nup,a,\"b\n", "line 2");
  refused("class,title,description\nup,a,\xff\xfe\n", "line 2");
  write_text(place.path("rows.csv"), "class,title,description\nup,a,b\nup,a\nno,c,d\n");
  const CommandOutput skipped =
      run_zerolock(place.train("skipped", {"--skip-bad-rows", "--log-level", "warn"}));
  CHECK(skipped.status == 0);
  CHECK(skipped.error_lines().size() == 1);
  CHECK(skipped.err.find("1 broken rows left out") != std::string::npos);

  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.text_path("none.csv"),
                              "--out", place.text_path("run")}),
                "none.csv");
  write_text(place.path("rows.jsonl"), "{\"prompt\": \"a\", \"completion\": \" b\"}\n{\"prompt\": \n");
  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.text_path("rows.jsonl"),
                              "--out", place.text_path("run")}),
                "line 2");
}

TEST_CASE("options that do not fit the model are refused") {
  const TinyWorkplace place;
  check_train_refused(place, "--stages: '7' is more than the model's 6 layers", {"--stages", "7"});
  check_train_refused(place, "--layers: add up to 5; the model has 6 layers", {"--layers", "2,3"});
  check_train_refused(place, "--targets: 'x_proj' is not a linear layer", {"--targets", "q_proj,x_proj"});
  check_train_refused(place, "--targets: 'q_proj' is named twice", {"--targets", "q_proj,q_proj"});
  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.rows(), "--out",
                              place.text_path("run"), "--seq", "513"}),
                "--seq: '513' is more than the model's context");
  write_text(place.path("text.txt"), "Nothing here has a class.");
  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.text_path("text.txt"),
                              "--out", place.text_path("run"), "--head", "restricted"}),
                "--head: 'restricted' needs rows with a class");
}

TEST_CASE("folders that are taken or cannot be written are refused and left as they are") {
  const TinyWorkplace place;
  write_text(place.path("file"), "x");
  check_refused(run_zerolock(place.train("file")), "is not a folder");
  check_refused(run_zerolock(place.train("file/run")), "is not a folder");
  std::filesystem::create_directories(place.path("full"));
  write_text(place.path("full") / "notes.txt", "mine");
  check_refused(run_zerolock(place.train("full")), "is not empty and holds no run");
  check_refused(run_zerolock({"train", "--model", place.model(), "--data", place.rows(), "--out",
                              "/proc/zerolock-run"}),
                "--out /proc/zerolock-run");

  REQUIRE(run_zerolock(place.train("run", {"--windows", "2"})).status == 0);
  const std::string record = read_text(place.path("run") / "run.json");
  check_refused(run_zerolock(place.train("run", {"--windows", "2"})),
                "holds a finished run; go on with zerolock train --resume");
  CHECK(read_text(place.path("run") / "run.json") == record);
  CHECK(std::distance(std::filesystem::directory_iterator(place.path("full")), {}) == 1);
}

TEST_CASE("runs that cannot be resumed say why") {
  const TinyWorkplace place;
  check_refused(run_zerolock({"train", "--resume", place.text_path("none")}), "holds no run to resume");
  REQUIRE(run_zerolock(place.train("run", {"--windows", "2"})).status == 0);
  const std::string run = place.text_path("run");
  check_refused(run_zerolock({"train", "--resume", run}), "the run has reached window 2, its last");
  check_refused(run_zerolock({"train", "--resume", run, "--windows", "3", "--seed", "9"}),
                "the run was made with --seed 0, not 9");
  check_refused(run_zerolock({"train", "--resume", run, "--windows", "3", "--lr", "0.5"}), "--lr");
  check_refused(run_zerolock({"train", "--resume", run, "--windows", "3", "--out", place.text_path("other")}),
                "leave --out away");
  SECTION("other data") {
    write_text(place.path("rows.csv"), read_text(place.path("rows.csv")) + "up,one more,row\n");
    check_refused(run_zerolock({"train", "--resume", run, "--windows", "3"}),
                  "the run was made with other data");
  }
  SECTION("another model") {
    const TinyWorkplace other("tiny-qwen2");
    check_refused(run_zerolock({"train", "--resume", run, "--windows", "3", "--model", other.model()}),
                  "the run was made with another model");
  }
  SECTION("no good checkpoint") {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(place.path("run") / "checkpoints")) {
      if (file.path().extension() == ".safetensors") std::filesystem::resize_file(file.path(), 100);
    }
    check_refused(run_zerolock({"train", "--resume", run, "--windows", "3"}), "no good checkpoint");
  }
}

TEST_CASE("adapters that do not fit are refused by the first names") {
  const TinyWorkplace place;
  const TinyWorkplace other("tiny-qwen2");
  const std::string fixtures = std::string(ZEROLOCK_TEST_FIXTURES) + "/models/";
  const auto evaluate = [&](const std::string& model, const std::string& adapter) {
    return run_zerolock({"evaluate", "--model", model, "--adapter", adapter, "--data", place.rows(),
                         "--labels", "up,no,hi,go"});
  };
  check_refused(evaluate(place.model(), place.text_path("none")), "none");
  std::filesystem::create_directories(place.path("adapter"));
  const std::string good = fixtures + "tiny-llama/adapters/qv";
  auto config = nlohmann::json::parse(read_text(good + "/adapter_config.json"));
  const std::string weights = read_text(good + "/adapter_model.safetensors");
  write_text(place.path("adapter") / "adapter_model.safetensors", weights);
  config["r"] = 8;
  write_text(place.path("adapter") / "adapter_config.json", config.dump());
  check_refused(evaluate(place.model(), place.text_path("adapter")), "lora_A");
  config["r"] = 4;
  config["target_modules"] = {"q_proj", "k_proj"};
  write_text(place.path("adapter") / "adapter_config.json", config.dump());
  check_refused(evaluate(place.model(), place.text_path("adapter")), "_proj");

  // Made for another base: the trained adapter notes which.
  REQUIRE(run_zerolock(place.train("run", {"--windows", "1"})).status == 0);
  check_refused(evaluate(other.model(), place.text_path("run/adapter")), "adapter");
}

TEST_CASE("prompts longer than the context are refused") {
  const TinyWorkplace place;
  check_refused(run_zerolock({"generate", "--model", place.model(), "--prompt", std::string(600, 'x')}),
                "--prompt: has 600 tokens; the model's context is 512");
  check_refused(run_zerolock({"inspect", place.text_path("none")}), "there is no such file or folder");
}
