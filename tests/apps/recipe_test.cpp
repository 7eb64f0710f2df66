// Readouts, trained stages and recipes as the command line names them, and what the binary makes of them.

#include <ATen/ATen.h>

#include "tensors/files/adapter_files.hpp"
#include "tensors/files/model_files.hpp"
// After LibTorch: Catch's macros must win over those of its logging.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/command/recipe.hpp"
#include "apps/command/train_options.hpp"
#include "command_process.hpp"
#include "refusal.hpp"
#include "tensors/base/error.hpp"
#include "tiny_model.hpp"

using namespace zerolock;
using namespace zerolock::testing;
using nlohmann::json;

namespace {

std::string heads_read_back(const std::string& text) {
  HeadChoice inner;
  HeadChoice last;
  parse_heads(text, "--head", inner, last);
  return heads_text(inner, last);
}

/// The lines of a printed configuration by key.
std::map<std::string, std::string> printed(const std::vector<std::string>& arguments) {
  const CommandOutput output = run_zerolock(arguments + std::vector<std::string>{"--print-config"});
  INFO(output.err);
  REQUIRE(output.status == 0);
  std::map<std::string, std::string> values;
  std::istringstream stream(output.out);
  for (std::string line; std::getline(stream, line);) {
    const auto equals = line.find(" = ");
    values[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

std::vector<std::string> free_text_run(const TinyWorkplace& place, const std::vector<std::string>& more) {
  write_text(
      place.path("rows.jsonl"),
      "{\"prompt\": \"a b\", \"completion\": \" c d\"}\n{\"prompt\": \"e\", \"completion\": \" f\"}\n");
  const std::vector<std::string> arguments{"train",
                                           "--model",
                                           place.model(),
                                           "--data",
                                           place.text_path("rows.jsonl"),
                                           "--out",
                                           place.text_path("run")};
  return arguments + more;
}

}  // namespace

TEST_CASE("readouts and trained stages are read and written back alike") {
  for (const std::string text : {"static", "restricted", "adapter", "adapter:full", "bottleneck",
                                 "bottleneck:full", "inner=calibrated,last=static",
                                 "inner=calibrated:full,last=restricted", "inner=static,last=bottleneck"}) {
    CHECK(heads_read_back(text) == text);
  }
  CHECK(heads_read_back("calibrated") == "inner=calibrated,last=static");
  CHECK(heads_read_back("calibrated:full") == "inner=calibrated:full,last=static");
  for (const std::string text : {"tuned", "static:full", "restricted:full", "inner=,last=static",
                                 "outer=static", "inner=static,last=calibrated", ":full", ""}) {
    INFO(text);
    CHECK_THROWS_AS(heads_read_back(text), InputError);
  }
  for (const std::string text : {"all", "last", "0", "0,2"}) {
    CHECK(TrainedStages::parse(text, "--train-stages").text() == text);
  }
  for (const std::string text : {"", "first", "0,0", "-1", "1024", "0,,1"}) {
    INFO(text);
    CHECK_THROWS_AS(TrainedStages::parse(text, "--train-stages"), InputError);
  }
  CHECK_FALSE(TrainedStages::parse("all", "").of(3).has_value());
  CHECK(TrainedStages::parse("last", "").of(3) == std::set<std::uint64_t>{2});
  CHECK(TrainedStages::parse("0,2", "").of(3) == std::set<std::uint64_t>{0, 2});
  CHECK_THROWS_AS(TrainedStages::parse("3", "").of(3), InputError);
}

TEST_CASE("a readout is over the labels where rows have classes, unless it is said otherwise") {
  TrainOptions options;
  options.inner_head = {HeadKind::calibrated, false};
  options.calibration_rows = 10'000;
  const std::vector<std::int64_t> tokens{5, 7};
  TrainingSettings settings = options.stage_settings(3, tokens, 8);
  CHECK(settings.loss.inner_head.restricted_tokens == tokens);
  CHECK(settings.loss.last_head.restricted_tokens.empty());
  CHECK(settings.calibration_rows_max == 10'000);
  CHECK(options.stage_settings(3, {}, 8).loss.inner_head.restricted_tokens.empty());
  options.inner_head.full_vocabulary = true;
  CHECK(options.stage_settings(3, tokens, 8).loss.inner_head.restricted_tokens.empty());
}

TEST_CASE("the automatic recipe looks at the rows and at the stages") {
  const TinyWorkplace place;
  auto classes = printed(place.train("run", {"--recipe", "auto"}));
  CHECK(classes["head"] == "\"inner=calibrated,last=static\"");
  CHECK(classes["alpha"] == "1");
  CHECK(classes["lr"] == "0.003");
  CHECK(classes["inner-lr-scale"] == "1");
  CHECK(classes["lr-schedule"] == "\"constant\"");
  CHECK(classes["train-stages"] == "\"all\"");
  CHECK(classes["ridge"] == "0.1");
  CHECK(classes["calibration-rows"] == "512");

  auto text = printed(free_text_run(place, {}));
  CHECK(text["recipe"] == "\"auto\"");
  CHECK(text["head"] == "\"inner=calibrated:full,last=static\"");
  CHECK(text["lr"] == "0.004");
  CHECK(text["inner-lr-scale"] == "0.05");
  CHECK(text["ridge"] == "0.01");
  CHECK(text["calibration-rows"] == "256");

  auto one = printed(place.train("run", {"--recipe", "auto", "--stages", "1"}));
  CHECK(one["head"] == "\"static\"");
  CHECK(one["lr"] == "0.003");
  CHECK(printed(free_text_run(place, {"--layers", "6"}))["lr"] == "0.002");

  // Answers of several tokens have no readout of one row each.
  write_text(place.path("rows.csv"), "class,title,description\nsideways,a,b\nupwards,c,d\n");
  CHECK(printed({"train", "--model", place.model(), "--data", place.rows(), "--out",
                 place.text_path("run")})["head"] == "\"inner=calibrated:full,last=static\"");
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}

TEST_CASE("what is given by hand wins over the recipe, on the command line and in a file") {
  const TinyWorkplace place;
  auto values = printed(place.train("run", {"--recipe", "auto", "--lr", "0.5", "--train-stages", "last"}));
  CHECK(values["lr"] == "0.5");
  CHECK(values["train-stages"] == "\"last\"");
  CHECK(values["head"] == "\"inner=calibrated,last=static\"");

  write_text(place.path("part.toml"), "recipe = \"auto\"\nhead = \"static\"\n");
  const auto with_file = place.train("run", {"--recipe", "auto", "--config", place.text_path("part.toml")});
  values = printed(with_file);
  CHECK(values["head"] == "\"static\"");
  CHECK(values["lr"] == "0.003");

  const CommandOutput first = run_zerolock(with_file + std::vector<std::string>{"--print-config"});
  write_text(place.path("whole.toml"), first.out);
  const CommandOutput again =
      run_zerolock({"train", "--config", place.text_path("whole.toml"), "--print-config"});
  CHECK(again.out == first.out);
}

TEST_CASE("the paper's recipe is the paper's setting, and a resumed run refuses another one's values") {
  const TinyWorkplace place;
  const CommandOutput output = run_zerolock(place.train("run", {"--recipe", "paper", "--windows", "2"}));
  INFO(output.err);
  REQUIRE(output.status == 0);
  CHECK(output.err.find("recipe paper for any data: --head static --alpha 0.5 --lr 1e-04") !=
        std::string::npos);
  const json settings = json::parse(read_text(place.path("run") / "run.json"))["settings"];
  CHECK(settings["head"] == "static");
  CHECK(settings["alpha"] == 0.5);
  CHECK(settings["lr"] == 1e-4);
  CHECK_FALSE(settings.contains("recipe"));
  const json recipe = json::parse(read_text(place.path("run") / "summary.json"))["recipe"];
  CHECK(recipe["name"] == "paper");
  CHECK(recipe["chosen"]["alpha"] == 0.5);

  const std::vector<std::string> resume{"train", "--resume", place.text_path("run"), "--windows", "3"};
  check_refused(resume + std::vector<std::string>{"--recipe", "auto"}, "the run was made with --alpha 0.5");
  check_refused(resume + std::vector<std::string>{"--ridge", "0.2"}, "the run was made with --ridge 0.1");
  check_refused(resume + std::vector<std::string>{"--train-stages", "last"},
                "the run was made with --train-stages \"all\"");
  const CommandOutput resumed = run_zerolock(resume + std::vector<std::string>{"--recipe", "paper"});
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK(json::parse(read_text(place.path("run") / "summary.json"))["recipe"] == recipe);
}

TEST_CASE("stages that are not trained keep their first adapter") {
  const TinyWorkplace place;
  REQUIRE(
      run_zerolock(place.train("run", {"--windows", "3", "--train-stages", "last", "--lr", "0.01"})).status ==
      0);
  const auto model = ModelFiles::open(place.model());
  const Adapter adapter = read_adapter(place.path("run") / "adapter", *model);
  int inner = 0;
  int last = 0;
  for (const auto& [name, tensor] : adapter.tensors) {
    if (name.find("lora_B") == std::string::npos) continue;
    const bool in_last_stage =
        name.find("layers.4.") != std::string::npos || name.find("layers.5.") != std::string::npos;
    INFO(name);
    CHECK((tensor.abs().max().item<float>() > 0) == in_last_stage);
    ++(in_last_stage ? last : inner);
  }
  CHECK(inner == 8);
  CHECK(last == 4);
  check_refused(place.train("other", {"--train-stages", "0,3"}), "--train-stages: '3' is not a stage");
}

TEST_CASE("every readout that needs no calibration trains") {
  const TinyWorkplace place;
  for (const std::string head : {"adapter", "adapter:full", "bottleneck", "inner=adapter,last=restricted"}) {
    const std::string name = "run-" + std::to_string(head.size()) + head.substr(0, 1);
    const CommandOutput output = run_zerolock(
        place.train(name, {"--windows", "2", "--head", head, "--bottleneck-rank", "3", "--warm-up", "1"}));
    INFO(head << ": " << output.err);
    CHECK(output.status == 0);
  }
}

TEST_CASE("a run is evaluated while it trains, and its best adapter is kept") {
  const TinyWorkplace place;
  const std::vector<std::string> more{
      "--windows",  "40",           "--lr", "0.01",   "--eval-data",
      place.rows(), "--eval-every", "4",    "--head", "inner=adapter,last=static"};
  const CommandOutput output = run_zerolock(place.train("run", more));
  INFO(output.err);
  REQUIRE(output.status == 0);
  std::istringstream stream(read_text(place.path("run") / "evaluations.jsonl"));
  std::vector<json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.back()["window"] == 40);
  double best = 1e9;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i]["examples"] == 40);
    if (i > 0) CHECK(lines[i]["window"] > lines[i - 1]["window"]);
    REQUIRE(lines[i]["stages"].size() == 3);
    // The last stage's readout is the model's.
    CHECK(lines[i]["stages"][2]["nll"].get<double>() == Approx(lines[i]["nll"].get<double>()).epsilon(1e-5));
    CHECK(lines[i]["stages"][0]["nll_label"].get<double>() > 0);
    best = std::min(best, lines[i]["nll_label"].get<double>());
  }
  const json evaluation = json::parse(read_text(place.path("run") / "summary.json"))["evaluation"];
  CHECK(evaluation["evaluations"] == lines.size());
  CHECK(evaluation["best"]["nll_label"] == best);
  // The kept adapter gives the best line's numbers.
  const CommandOutput again =
      run_zerolock({"evaluate", "--model", place.model(), "--adapter", place.text_path("run/adapter-best"),
                    "--data", place.rows(), "--labels", "up,no,hi,go", "--seq", "64", "--json"});
  INFO(again.err);
  REQUIRE(again.status == 0);
  CHECK(json::parse(again.out)["nll_label"].get<double>() == Approx(best).epsilon(1e-5));
}

TEST_CASE("a run without improvement stops early, in order") {
  const TinyWorkplace place;
  // Classes told apart by nothing: at this rate the first evaluation is soon the best.
  const CommandOutput output =
      run_zerolock(place.train("run", {"--windows", "20000", "--lr", "0.3", "--eval-data", place.rows(),
                                       "--eval-every", "1", "--early-stop", "2"}));
  INFO(output.err);
  REQUIRE(output.status == 0);
  const json summary = json::parse(read_text(place.path("run") / "summary.json"));
  CHECK(summary["status"] == "stopped early");
  CHECK(summary["windows"] < 20000);
  CHECK(summary["evaluation"]["evaluations"].get<int>() >= 3);
  CHECK(std::filesystem::exists(place.path("run") / "adapter-best" / "adapter_model.safetensors"));
  CHECK(json::parse(read_text(place.path("run") / "run.json"))["status"] == "stopped");
}
