// What the command line promises whatever the model: help, unknown names, ranges, configuration files.

#include <catch2/catch.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;

namespace {

/// Status 2, one line on stderr that holds `text`, nothing on stdout.
void check_refused(const std::vector<std::string>& arguments, const std::string& text) {
  const CommandOutput output = run_zerolock(arguments);
  INFO(output.err);
  INFO(text);
  CHECK(output.status == 2);
  CHECK(output.error_lines().size() == 1);
  CHECK(output.err.find(text) != std::string::npos);
  CHECK(output.out.empty());
}

}  // namespace

TEST_CASE("every command has help with an example") {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"train"},
                                             {"evaluate"},
                                             {"generate"},
                                             {"inspect"},
                                             {"plan"},
                                             {"coordinator"},
                                             {"executor"},
                                             {"status"},
                                             {"inject"},
                                             {"chaos"},
                                             {"certs"},
                                             {"simulate"},
                                             {"report"},
                                             {"export"},
                                             {"bench", "device"},
                                             {"bench", "overhead"},
                                             {"bench", "throughput"},
                                             {"bench", "memory"},
                                             {"bench", "learning"},
                                             {"bench", "theory"},
                                             {"bench", "links"},
                                             {"bench", "stages"},
                                             {"bench", "recovery"},
                                             {"bench", "replay"}}) {
    const CommandOutput output = run_zerolock(command + std::vector<std::string>{"--help"});
    CHECK(output.status == 0);
    CHECK(output.err.empty());
    CHECK(output.out.find("Example:") != std::string::npos);
  }
  const CommandOutput all = run_zerolock({"--help"});
  CHECK(all.status == 0);
  CHECK(all.out.find("train") != std::string::npos);
  CHECK(all.out.find("report") != std::string::npos);
  for (const char* bench : {"overhead", "throughput", "memory", "learning", "theory", "links", "stages",
                            "device", "recovery", "replay"}) {
    CHECK(all.out.find(bench) != std::string::npos);
  }
  CHECK(run_zerolock({"inject", "--help"}).out.find("KIND PATH") == std::string::npos);
}

TEST_CASE("unknown and later commands are refused with a list of those that are there") {
  check_refused({},
                "no command given; commands: train, coordinator, executor, status, inject, chaos, evaluate, "
                "generate, inspect, plan, report, export, certs, simulate, bench");
  check_refused({"trian"}, "did you mean train?");
  check_refused({"bench"}, "commands: overhead, throughput");
}

TEST_CASE("unknown flags name the nearest one, or the command they belong to") {
  check_refused({"train", "--stagse", "3"},
                "--stagse: unknown flag of zerolock train; did you mean --stages?");
  check_refused({"train", "--prompt", "x"},
                "--prompt: is a flag of zerolock generate, not of zerolock train");
  check_refused({"train", "extra"}, "unexpected argument 'extra'");
  check_refused({"train", "--lr"}, "--lr");
}

TEST_CASE("numbers out of range are refused with the range") {
  const std::vector<std::vector<std::string>> cases{{"--stages", "0", "from 1 to 1024"},
                                                    {"--stages", "-1", "from 1 to 1024"},
                                                    {"--stages", "1e30", "from 1 to 1024"},
                                                    {"--stages", "2.5", "from 1 to 1024"},
                                                    {"--batch", "0", "from 1 to 65536"},
                                                    {"--seq", "1", "from 2 to"},
                                                    {"--rank", "0", "from 1 to 4096"},
                                                    {"--alpha", "0", "above 0 and at most 1"},
                                                    {"--alpha", "1.5", "above 0"},
                                                    {"--alpha", "nan", "above 0"},
                                                    {"--lr", "-1", "above 0"},
                                                    {"--lr", "1e30", "above 0"},
                                                    {"--lr", "inf", "above 0"},
                                                    {"--lr", "fast", "above 0"},
                                                    {"--clip", "0", "above 0"},
                                                    {"--inner-lr-scale", "0", "above 0"},
                                                    {"--ridge", "0", "above 0"},
                                                    {"--label-smoothing", "1", "above 0 and at most 0.999"},
                                                    {"--calibration-rows", "1", "from 2 to"},
                                                    {"--bottleneck-rank", "0", "from 1 to"},
                                                    {"--adapter-width", "0", "from 1 to"},
                                                    {"--warm-up", "-1", "from 0 to"},
                                                    {"--weight-decay", "-0.1", "from 0 to 10"},
                                                    {"--layers", "2,x", "from 1 to 4096"},
                                                    {"--seed", "18446744073709551616", "from 0 to"},
                                                    {"--depth", "0", "from 1 to"},
                                                    {"--checkpoint-every", "0", "from 1 to"}};
  for (const auto& arguments : cases) check_refused({"train", arguments[0], arguments[1]}, arguments[2]);
}

TEST_CASE("what a later version will have is refused by name") {
  check_refused({"train", "--early-stop", "2"}, "--early-stop: needs --eval-data");
  check_refused({"train", "--placement", "moon"}, "this version has: threads, processes");
  check_refused({"train", "--schedule", "zig-zag"}, "this version has: zerolock, bp, gpipe, 1f1b, pipedream");
  check_refused({"train", "--recipe", "best"}, "this version has: auto, paper, none");
  check_refused({"train", "--head", "tuned"}, "this version has: static, restricted, calibrated, adapter");
}

TEST_CASE("a printed configuration can be read back, and flags win over it") {
  const TinyWorkplace place;
  const std::vector<std::string> arguments{"train",
                                           "--model",
                                           place.model(),
                                           "--data",
                                           place.rows(),
                                           "--out",
                                           place.text_path("run"),
                                           "--layers",
                                           "1,2,3",
                                           "--lr",
                                           "3e-3",
                                           "--head",
                                           "inner=restricted,last=static",
                                           "--labels",
                                           "up,no,\"hi\"",
                                           "--windows",
                                           "5",
                                           "--recompute",
                                           "--clip",
                                           "1.5",
                                           "--recipe",
                                           "none"};
  const CommandOutput first = run_zerolock(arguments + std::vector<std::string>{"--print-config"});
  REQUIRE(first.status == 0);
  write_text(place.path("config.toml"), first.out);
  const CommandOutput again =
      run_zerolock({"train", "--config", place.text_path("config.toml"), "--print-config"});
  CHECK(again.err == "");
  CHECK(again.out == first.out);
  CHECK(first.out.find("lr = 0.003\n") != std::string::npos);
  CHECK(first.out.find("layers = [1, 2, 3]\n") != std::string::npos);
  CHECK(first.out.find("recompute = true\n") != std::string::npos);

  const CommandOutput changed = run_zerolock({"train", "--config", place.text_path("config.toml"), "--stages",
                                              "2", "--epochs", "3", "--print-config"});
  REQUIRE(changed.status == 0);
  CHECK(changed.out.find("stages = 2\n") != std::string::npos);
  CHECK(changed.out.find("layers") == std::string::npos);
  CHECK(changed.out.find("epochs = 3\n") != std::string::npos);
  CHECK(changed.out.find("windows") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("run")));
}

TEST_CASE("configuration files are checked key by key") {
  const TinyWorkplace place;
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(place.path("bad.toml"), text);
    check_refused({"train", "--config", place.text_path("bad.toml")}, message);
  };
  refused("stages = 2\nlearning = 3\n", "bad.toml line 2: learning: unknown key");
  refused("stagse = 2\n", "did you mean stages?");
  refused("stages = \"two\"\n", "bad.toml line 1: stages: must be a whole number");
  refused("stages = 0\n", "from 1 to 1024");
  refused("lr = nan\n", "above 0");
  refused("recompute = 1\n", "must be true or false");
  refused("targets = \"q_proj\"\n", "must be an array");
  refused("faults = \"some.toml\"\n", "unknown key");
  refused("stages = 2\nlayers = [3, 3]\n", "cannot be given together");
  refused("stages = = 2\n", "bad.toml line 1: not TOML");
  check_refused({"train", "--config", place.text_path("none.toml")}, "none.toml");
  check_refused({"train", "--stages", "2", "--layers", "3,3", "--model", "m", "--data", "d", "--out", "o"},
                "--stages: cannot be given together with --layers");
}
