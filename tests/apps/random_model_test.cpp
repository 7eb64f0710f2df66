// Models of random weights through the binary: made once, in the cache, and used like any other.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// A place whose cache is its own while it lives.
class CachedWorkplace : public TinyWorkplace {
 public:
  CachedWorkplace() {
    if (const char* earlier = std::getenv(variable)) earlier_ = earlier;
    ::setenv(variable, text_path("cache").c_str(), 1);
  }
  ~CachedWorkplace() {
    if (earlier_) {
      ::setenv(variable, earlier_->c_str(), 1);
    } else {
      ::unsetenv(variable);
    }
  }
  CachedWorkplace(const CachedWorkplace&) = delete;
  CachedWorkplace& operator=(const CachedWorkplace&) = delete;

  /// Folders and files that the cache has for random models.
  [[nodiscard]] std::vector<std::filesystem::path> cached() const {
    std::vector<std::filesystem::path> found;
    if (!std::filesystem::exists(path("cache") / "random-models")) return found;
    for (const auto& entry : std::filesystem::directory_iterator(path("cache") / "random-models")) {
      found.push_back(entry.path());
    }
    return found;
  }
  /// "random:" with a config.json of the tiny model's shape in which `changes` are made.
  [[nodiscard]] std::string random_model(const json& changes) const {
    json config = json::parse(read_text(path("model") / "config.json"));
    config.update(changes);
    const std::string file = text_path("shape.json");
    write_text(file, config.dump());
    return "random:" + file;
  }

 private:
  static constexpr const char* variable = "ZEROLOCK_CACHE";
  std::optional<std::string> earlier_;
};

}  // namespace

TEST_CASE("A random model is made once and trains like any other", "[random]") {
  const CachedWorkplace place;
  const std::string model =
      place.random_model({{"initializer_range", 0.05}, {"intermediate_size", 192}, {"eos_token_id", 300}});
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    return run_zerolock(std::vector<std::string>{"train", "--model", model, "--data", place.rows(), "--out",
                                                 place.text_path(out), "--seq", "64", "--batch", "2",
                                                 "--windows", "2", "--recipe", "none", "--base", "q8_0"} +
                        more);
  };
  const CommandOutput first = train("first", {});
  INFO(first.err);
  REQUIRE(first.status == 0);
  REQUIRE_THAT(first.err, Contains("making random weights") && Contains(place.text_path("cache")));
  REQUIRE(place.cached().size() == 1);
  const std::filesystem::path weights = place.cached().front() / "model.safetensors";
  const auto made = std::filesystem::last_write_time(weights);
  REQUIRE_THAT(read_text(place.path("first") / "config.toml"), Contains("model = \"" + model + "\""));

  const CommandOutput second = train("second", {"--placement", "processes"});
  INFO(second.err);
  REQUIRE(second.status == 0);
  REQUIRE_THAT(second.err, !Contains("making random weights"));
  REQUIRE(std::filesystem::last_write_time(weights) == made);
  const auto summary = [&](const std::string& run) {
    return json::parse(read_text(place.path(run) / "summary.json"));
  };
  REQUIRE(summary("first")["adapter_sha256"] == summary("second")["adapter_sha256"]);

  const CommandOutput evaluated =
      run_zerolock({"evaluate", "--model", model, "--adapter", place.text_path("first/adapter"), "--data",
                    place.rows(), "--seq", "64", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.status == 0);
  REQUIRE(json::parse(evaluated.out)["examples"] == 40);
  const CommandOutput replayed = run_zerolock({"bench", "replay", "--model", model, "--stages", "2", "--seq",
                                               "8", "--together", "1,2", "--rounds", "1", "--json"});
  INFO(replayed.err);
  REQUIRE(replayed.status == 0);
  REQUIRE(json::parse(replayed.out)["rows"].size() == 2);
  const CommandOutput inspected = run_zerolock({"inspect", model, "--json"});
  REQUIRE(inspected.status == 0);
  REQUIRE(json::parse(inspected.out)["kind"] == "model");
}

TEST_CASE("Random models that cannot be are refused in one line, and leave nothing", "[random]") {
  const CachedWorkplace place;
  const auto refused = [&](const std::string& model, const std::string& reason) {
    check_refused({"inspect", model}, reason);
    CHECK(place.cached().empty());
  };
  refused("random:tinylama-1.1b", "did you mean tinyllama-1.1b?");
  refused("random:" + place.text_path("nowhere.json"), "nowhere.json");
  refused(place.random_model({{"vocab_size", 100}}), "each byte is a token");
  refused(place.random_model({{"initializer_range", -1}}), "initializer_range is -1");
  refused(place.random_model({{"model_type", "bloom"}}), "shape.json: model_type \"bloom\"");
  refused(place.random_model({{"num_hidden_layers", 4096}, {"intermediate_size", 1 << 20}}),
          "the disk is full");
}
