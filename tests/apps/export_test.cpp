// Merged models: the folder that export writes is the model with its adapter.

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// NLL of the workplace's rows, as evaluate gives it.
double nll(const TinyWorkplace& place, const std::vector<std::string>& model) {
  const CommandOutput output = run_zerolock(
      std::vector<std::string>{"evaluate", "--data", place.rows(), "--seq", "64", "--json", "--model"} +
      model);
  INFO(output.err);
  REQUIRE(output.status == 0);
  return json::parse(output.out)["nll"].get<double>();
}

std::vector<std::string> export_to(const TinyWorkplace& place, const std::string& adapter,
                                   const std::string& out) {
  return {"export", "--model", place.model(), "--adapter", adapter, "--merge", "--out", place.text_path(out)};
}

}  // namespace

TEST_CASE("A merged model has the NLL of the model with its adapter", "[export]") {
  for (const auto& [name, tag] : {std::pair<std::string, std::string>{"tiny-llama", "all7"},
                                  {"tiny-llama", "qv-rslora"},
                                  {"tiny-llama31", "qv"}}) {
    INFO(name << " " << tag);
    const TinyWorkplace place(name);
    const std::string adapter = std::string(ZEROLOCK_TEST_FIXTURES) + "/models/" + name + "/adapters/" + tag;
    const double plain = nll(place, {place.model()});
    const double adapted = nll(place, {place.model(), "--adapter", adapter});
    REQUIRE(std::abs(plain - adapted) > 1e-3);  // so that a merge that does nothing is seen
    const auto exported = [&](const std::string& type) {
      const CommandOutput output =
          run_zerolock(export_to(place, adapter, type) + std::vector<std::string>{"--dtype", type});
      INFO(output.err);
      REQUIRE(output.status == 0);
      CHECK(std::filesystem::exists(place.path(type) / "tokenizer.json"));
      return json::parse(read_text(place.path(type) / "config.json"));
    };
    CHECK(exported("fp32")["torch_dtype"] == "float32");
    CHECK(nll(place, {place.text_path("fp32")}) == Approx(adapted).margin(1e-5));
    CHECK(exported("bf16")["torch_dtype"] == "bfloat16");
    CHECK(nll(place, {place.text_path("bf16")}) == Approx(adapted).epsilon(0.01));
    CHECK(exported("keep")["torch_dtype"] == (name == "tiny-llama31" ? "bfloat16" : "float32"));
    CHECK(std::filesystem::file_size(place.path("bf16") / "model.safetensors") <
          0.6 * static_cast<double>(std::filesystem::file_size(place.path("fp32") / "model.safetensors")));
  }
}

TEST_CASE("An export that cannot be is refused in one line, and leaves nothing", "[export]") {
  const TinyWorkplace place;
  const std::string adapter = std::string(ZEROLOCK_TEST_FIXTURES) + "/models/tiny-llama/adapters/qv";
  check_refused(
      {"export", "--model", place.model(), "--adapter", adapter, "--out", place.text_path("merged")},
      "--merge: is required");
  check_refused(export_to(place, place.text_path("nowhere"), "merged"), "nowhere");
  std::filesystem::copy(adapter, place.path("other"));
  json settings = json::parse(read_text(place.path("other") / "adapter_config.json"));
  settings["r"] = 5;
  write_text(place.path("other") / "adapter_config.json", settings.dump());
  check_refused(export_to(place, place.text_path("other"), "merged"), "other");
  std::filesystem::create_directories(place.path("there"));
  check_refused(export_to(place, adapter, "there"), "is there already");
  for (const auto& entry : std::filesystem::directory_iterator(place.path(""))) {
    CHECK_THAT(entry.path().string(), !Contains("unfinished") && !Contains("merged"));
  }
}
