// zerolock plan: what it prints, what it takes from the options, and which executor files it refuses.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "apps/command/quantity.hpp"
#include "command_process.hpp"
#include "refusal.hpp"
#include "tensors/base/error.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;

namespace {

nlohmann::json plan(const std::vector<std::string>& arguments) {
  const CommandOutput output = run_zerolock(std::vector<std::string>{"plan", "--json"} + arguments);
  INFO(output.err);
  REQUIRE(output.status == 0);
  return nlohmann::json::parse(output.out);
}

void check_plan_refused(const std::vector<std::string>& arguments, const std::string& text) {
  check_refused_at_last(std::vector<std::string>{"plan"} + arguments, text);
}

const std::string two_executors = R"([[executor]]
name = "laptop"
memory = "1GiB"
gflops = 40
link = "1Gbit/s"

[[executor]]
name = "desktop"
cores = 4
gflops = 120.5
)";

}  // namespace

TEST_CASE("a plan covers the model, adds up, and says what bounds it") {
  const TinyWorkplace place;
  const nlohmann::json report =
      plan({"--model", place.model(), "--stages", "3", "--data", place.rows(), "--labels", "up,no,hi,go"});
  REQUIRE(report["stages"].size() == 3);
  std::int64_t next = 0;
  for (const nlohmann::json& stage : report["stages"]) {
    CHECK(stage["layers"][0] == next);
    next = stage["layers"][1];
    CHECK(stage["executor"] == "this machine");
    CHECK(stage["seconds"] > 0.0);
    CHECK(stage["share"] <= 1.0);
    const nlohmann::json& bytes = stage["peak_bytes"];
    CHECK(bytes["activations"] > 0);
    CHECK(bytes["total"] >= bytes["weights"]);
  }
  CHECK(next == 6);
  CHECK(report["times"] == "operations");
  CHECK(report["why"].get<std::string>().find("is the slowest") != std::string::npos);
  CHECK(report["period_seconds"] <= report["slowest_seconds"]);

  const CommandOutput table = run_zerolock({"plan", "--model", place.model(), "--stages", "2"});
  REQUIRE(table.status == 0);
  CHECK(table.out.find("weights  activations") != std::string::npos);
  CHECK(table.out.find("why: stage ") != std::string::npos);
  CHECK(table.out.find("train it so: --layers 3,3") != std::string::npos);
  CHECK(table.err.find("no --data: full rows of 128 tokens are assumed") != std::string::npos);
}

TEST_CASE("a plan follows the flags that decide what a stage costs") {
  const TinyWorkplace place;
  const std::vector<std::string> base{"--model", place.model(), "--recipe", "none"};
  const auto bytes = [](const nlohmann::json& report, std::size_t stage, const char* component) {
    return report["stages"][stage]["peak_bytes"][component].get<std::int64_t>();
  };
  const std::vector<std::string> cut{"--layers", "2,2,2"};
  const nlohmann::json whole = plan(base + cut);
  CHECK(whole["layers"] == "2,2,2");
  CHECK(bytes(plan(base + cut + std::vector<std::string>{"--recompute"}), 1, "activations") <
        bytes(whole, 1, "activations"));
  CHECK(bytes(plan(base + cut + std::vector<std::string>{"--batch", "16"}), 1, "activations") >
        bytes(whole, 1, "activations"));
  CHECK(bytes(plan(base + cut + std::vector<std::string>{"--rank", "8"}), 1, "optimizer") ==
        2 * bytes(whole, 1, "optimizer"));

  const nlohmann::json last = plan(base + cut + std::vector<std::string>{"--train-stages", "last"});
  CHECK(last["stages"][0]["trained"] == false);
  CHECK(last["stages"][0]["operations"]["backward"] == 0.0);
  // Each plan measures the machine's rate anew; seconds compare at a rate that is given.
  const std::string file = place.text_path("executors.toml");
  write_text(file, "[[executor]]\nname = \"a\"\ngflops = 1\n");
  const auto first_stage_seconds = [&](const std::vector<std::string>& flags) {
    const nlohmann::json report = plan(base + cut + std::vector<std::string>{"--executors", file} + flags);
    return report["stages"][0]["seconds"].get<double>();
  };
  CHECK(2 * first_stage_seconds({"--train-stages", "last"}) < first_stage_seconds({}));
  // Stages that are cheaper take more layers.
  const nlohmann::json chosen =
      plan(base + std::vector<std::string>{"--stages", "2", "--train-stages", "last"});
  CHECK(chosen["stages"][0]["layers"][1] > 3);
  CHECK(chosen["slowest_seconds"] < chosen["evenly_cut_slowest_seconds"]);
}

TEST_CASE("a plan for executors names them, and refuses what does not fit") {
  const TinyWorkplace place;
  const std::string file = place.text_path("executors.toml");
  write_text(file, two_executors);
  const std::vector<std::string> base{"--model", place.model(), "--executors", file};
  const nlohmann::json report = plan(base);
  CHECK(report["stages"].size() == 2);  // one for each executor
  for (const nlohmann::json& stage : report["stages"]) {
    CHECK((stage["executor"] == "laptop" || stage["executor"] == "desktop"));
  }
  write_text(file, "[[executor]]\nname = \"watch\"\nmemory = \"64KiB\"\n");
  check_plan_refused(base, "executor watch: stage 0 (layers 0-5) needs ");
  check_plan_refused(base, "more than its 64 KiB");
}

TEST_CASE("stages take as many of an executor's cores as they have threads") {
  const TinyWorkplace place;
  const std::string file = place.text_path("executors.toml");
  const auto planned = [&](const std::string& keys) {
    write_text(file, "[[executor]]\nname = \"a\"\ngflops = 1\n" + keys);
    return plan({"--model", place.model(), "--executors", file, "--layers", "3,3"});
  };
  const nlohmann::json one = planned("");
  const nlohmann::json four = planned("cores = 4\n");
  const nlohmann::json twice_two = planned("cores = 4\nthreads = 2\n");
  const nlohmann::json all = planned("cores = 4\nthreads = 4\n");
  const double seconds = one["stages"][0]["seconds"].get<double>();
  const auto close_to = [](double value) { return Approx(value).epsilon(1e-6); };
  CHECK(four["stages"][0]["seconds"].get<double>() == seconds);
  CHECK(four["slowest_seconds"].get<double>() == close_to(one["slowest_seconds"].get<double>() / 2));
  CHECK(twice_two["stages"][0]["seconds"].get<double>() == close_to(seconds / 2));
  CHECK(twice_two["slowest_seconds"].get<double>() == close_to(four["slowest_seconds"].get<double>() / 2));
  CHECK(all["stages"][0]["seconds"].get<double>() == close_to(seconds / 4));
  CHECK(all["slowest_seconds"].get<double>() == close_to(twice_two["slowest_seconds"].get<double>()));
  CHECK(one["why"].get<std::string>().find("its share of a, which computes 1 stage at once") !=
        std::string::npos);
}

TEST_CASE("a source that embeds takes the embedding off the first stage, and needs the link") {
  const TinyWorkplace place;
  const std::string file = place.text_path("executors.toml");
  write_text(file, "[[executor]]\nname = \"a\"\nlink = \"1MB/s\"\n");
  const std::vector<std::string> base{"--model", place.model(), "--executors", file, "--layers", "3,3"};
  const nlohmann::json stage = plan(base);
  const nlohmann::json source = plan(base + std::vector<std::string>{"--embed-at", "source"});
  CHECK_FALSE(stage.contains("source"));
  const std::int64_t embedding = source["source"]["embedding_bytes"];
  CHECK(embedding == 320 * 64 * 4);
  CHECK(source["source"]["entry_bytes"] == 8 * 128 * 64 * 4);
  CHECK(source["stages"][0]["peak_bytes"]["weights"].get<std::int64_t>() ==
        stage["stages"][0]["peak_bytes"]["weights"].get<std::int64_t>() - embedding);
  CHECK(source["stages"][1]["peak_bytes"] == stage["stages"][1]["peak_bytes"]);
  CHECK(stage["stages"][0]["receive_seconds"] == 0.0);
  CHECK(source["stages"][0]["receive_seconds"].get<double>() == Approx(8 * 128 * 64 * 4 / 1e6));
  const CommandOutput table = run_zerolock(std::vector<std::string>{"plan"} + base +
                                           std::vector<std::string>{"--embed-at", "source"});
  CHECK(table.out.find("source: embeds the rows with 80 KiB of weights, and sends 256 KiB of a") !=
        std::string::npos);
}

TEST_CASE("stages can be timed instead of counted") {
  const TinyWorkplace place;
  const nlohmann::json report =
      plan({"--model", place.model(), "--data", place.rows(), "--labels", "up,no,hi,go", "--measure"});
  CHECK(report["times"] == "measured");
  for (const nlohmann::json& stage : report["stages"]) {
    CHECK(stage["measured"]["readout_seconds"] > 0.0);
    CHECK((stage["measured"]["embedding_seconds"] > 0.0) == (stage["stage"] == 0));
  }
}

TEST_CASE("executor files are checked key by key") {
  const TinyWorkplace place;
  const std::string file = place.text_path("bad.toml");
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(file, text);
    check_plan_refused({"--model", place.model(), "--executors", file}, message);
  };
  refused("", "has no [[executor]]");
  refused("[[executor]\n", "bad.toml line 1: not TOML");
  refused("stages = 3\n", "bad.toml line 1: 'stages' is not an [[executor]] table");
  refused("executor = 3\n", "is not an [[executor]] table");
  refused("[[executor]]\nmemory = \"4GiB\"\n", "bad.toml line 1: an executor needs a name");
  refused("[[executor]]\nname = \"a\"\nmemroy = \"4GiB\"\n",
          "line 3: memroy: unknown key; did you mean memory?");
  refused("[[executor]]\nname = \"a\"\nmemory = \"4 gigs\"\n",
          "line 3: memory: '4 gigs' is not a number above 0");
  refused("[[executor]]\nname = \"a\"\nmemory = 4\n", "line 3: memory: must be a string");
  refused("[[executor]]\nname = \"a\"\ncores = 0\n", "line 3: cores: must be a whole number from 1 to 4096");
  refused("[[executor]]\nname = \"a\"\ncores = 2\nthreads = 3\n",
          "line 4: threads: must be a whole number from 1 to 2");
  refused("[[executor]]\nname = \"a\"\ngflops = -1\n", "line 3: gflops: must be a number above 0");
  refused("[[executor]]\nname = \"a\"\nlink = \"fast\"\n", "line 3: link: 'fast' is not a number above 0");
  refused("[[executor]]\nname = \"a\"\n[[executor]]\nname = \"a\"\n",
          "line 4: name: two executors are called 'a'");
  refused("[[executor]]\nname = \"a\"\ngflops = 3\n[[executor]]\nname = \"b\"\n",
          "for all executors or for none");
  check_plan_refused({"--model", place.model(), "--executors", place.text_path("none.toml")}, "none.toml");
}

TEST_CASE("a plan refuses options that train would refuse") {
  const TinyWorkplace place;
  check_plan_refused({}, "--model: is required");
  check_plan_refused({"--model", place.model(), "--stages", "7"}, "1 to 6");
  check_plan_refused({"--model", place.model(), "--layers", "3,4"}, "add up to 7");
  check_plan_refused({"--model", place.model(), "--seq", "100000"}, "more than the model's context");
  check_plan_refused({"--model", place.model(), "--recipe", "none", "--head", "restricted"},
                     "without --data there are none");
  check_plan_refused(
      {"--model", place.model(), "--recipe", "none", "--head", "bottleneck", "--bottleneck-rank", "900"},
      "rank of a bottleneck head");
  check_plan_refused({"--model", place.model(), "--resume", place.text_path("run")},
                     "--resume: a plan continues no run");
}

TEST_CASE("amounts are read with their units") {
  using zerolock::parse_bytes;
  using zerolock::parse_bytes_per_second;
  CHECK(parse_bytes("4GiB", "x") == 4LL << 30);
  CHECK(parse_bytes("1.5 MB", "x") == 1'500'000);
  CHECK(parse_bytes("17B", "x") == 17);
  CHECK(parse_bytes_per_second("1Gbit/s", "x") == 125e6);
  CHECK(parse_bytes_per_second("2 MiB/s", "x") == 2097152.0);
  for (const std::string bad :
       {"", "4", "GiB", "-4GiB", "0B", "0.1B", "4 gib", "nanGiB", "infGiB", "1e300TiB", "5EiB"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_bytes(bad, "x"), zerolock::InputError);
  }
  CHECK_THROWS_AS(parse_bytes_per_second("1GB", "x"), zerolock::InputError);
}
