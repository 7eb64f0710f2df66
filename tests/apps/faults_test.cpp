// Faults through the real binary: whatever goes wrong, the adapter is that of the undisturbed run, to the
// bit.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "refusal.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

const char* const weights_file = "adapter/adapter_model.safetensors";
const std::vector<std::string> job{"--windows", "5", "--accumulate", "3", "--restarts-max", "20"};
const std::vector<std::string> as_processes{"--placement", "processes"};

std::string fault(const std::string& kind, int stage, const std::string& at, const std::string& more = "") {
  return "[[fault]]\nkind = \"" + kind + "\"\nstage = " + std::to_string(stage) +
         "\nwindow = 2\nmicro_batch = 1\nat = \"" + at + "\"\n" + more;
}

/// A run with faults beside one without.
class Comparison {
 public:
  Comparison() {
    const CommandOutput output = run_zerolock(place_.train("undisturbed", job));
    INFO(output.err);
    REQUIRE(output.status == 0);
    expected_ = read_text(place_.path("undisturbed") / weights_file);
  }

  /// Trains with the faults, and checks that they happened and that the adapter is the same.
  json check_same(const std::string& faults, const std::vector<std::string>& more = {}) {
    write_text(place_.path("faults.toml"), faults);
    const std::string out = "run-" + std::to_string(++runs_);
    const CommandOutput output = run_zerolock(place_.train(
        out, job + std::vector<std::string>{"--json", "--faults", place_.text_path("faults.toml")} + more));
    INFO(faults);
    INFO(output.err);
    REQUIRE(output.status == 0);
    CHECK(output.err.find("injected fault: ") != std::string::npos);
    CHECK(read_text(place_.path(out) / weights_file) == expected_);
    return json::parse(output.out);
  }

  [[nodiscard]] const TinyWorkplace& place() const { return place_; }
  [[nodiscard]] const std::string& expected() const { return expected_; }

 private:
  TinyWorkplace place_;
  std::string expected_;
  int runs_ = 0;
};

/// Stages but the hit one are in their first life.
void check_others_lived_on(const json& summary, int hit) {
  for (const json& stage : summary["stages"]) {
    if (stage["stage"] != hit) CHECK(stage["incarnation"] == 1);
  }
}

}  // namespace

TEST_CASE("stages that are threads survive every fault of one process") {
  Comparison comparison;
  int stage = 0;
  for (const char* kind : {"throw", "kill", "disk-full"}) {
    for (const char* at : {"entry-received", "backward", "step", "manifest"}) {
      stage = (stage + 1) % 3;
      check_others_lived_on(comparison.check_same(fault(kind, stage, at)), stage);
    }
  }
  comparison.check_same(fault("corrupt-checkpoint", 1, "forward-begin"));
}

TEST_CASE("stages that are processes survive the loss, the pause and the links of their processes") {
  Comparison comparison;
  check_others_lived_on(comparison.check_same(fault("sigkill", 1, "forward-end"), as_processes), 1);
  check_others_lived_on(comparison.check_same(fault("sigkill", 0, "checkpoint-rename"), as_processes), 0);
  check_others_lived_on(comparison.check_same(fault("sigkill", 2, "step"), as_processes), 2);
  check_others_lived_on(
      comparison.check_same(fault("sigstop", 1, "entry-sent", "seconds = 3\n"), as_processes), 1);
  check_others_lived_on(comparison.check_same(fault("drop-link", 1, "backward"), as_processes), 1);
  check_others_lived_on(comparison.check_same(fault("corrupt-frame", 0, "forward-end"), as_processes), 0);
  check_others_lived_on(comparison.check_same(fault("kill", 2, "backward"), as_processes), 2);
  check_others_lived_on(comparison.check_same(fault("disk-full", 1, "step"), as_processes), 1);
  comparison.check_same(
      fault("sigkill", 0, "backward") + fault("sigkill", 1, "backward") + fault("sigkill", 2, "backward"),
      as_processes);
}

TEST_CASE("the faults that come with the project do what they say") {
  Comparison comparison;
  const std::filesystem::path folder = ZEROLOCK_TEST_FIXTURES "/../../configs/faults";
  const auto text = [&folder](const char* name) { return read_text(folder / (std::string(name) + ".toml")); };
  for (const char* name : {"throw", "kill", "corrupt-checkpoint", "disk-full", "bad-night"}) {
    comparison.check_same(text(name));
  }
  for (const char* name : {"sigkill", "sigstop", "drop-link", "corrupt-frame"}) {
    comparison.check_same(text(name), as_processes);
  }
  comparison.check_same(text("hang"), as_processes + std::vector<std::string>{"--hang-after", "1"});
}

TEST_CASE("a thread that hangs pauses the run, which goes on in another process") {
  Comparison comparison;
  const TinyWorkplace& place = comparison.place();
  const std::string hang = ZEROLOCK_TEST_FIXTURES "/../../configs/faults/hang.toml";
  const CommandOutput output =
      run_zerolock(place.train("run", job + std::vector<std::string>{"--faults", hang, "--hang-after", "1"}));
  INFO(output.err);
  CHECK(output.status == 1);
  CHECK(output.err.find("stage 1 hangs at window 3, micro-batch 1: the backward has taken") !=
        std::string::npos);
  const CommandOutput resumed = run_zerolock({"train", "--resume", place.text_path("run")});
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(read_text(place.path("run") / weights_file) == comparison.expected());
}

TEST_CASE("a fault file with mistakes is refused with line and key") {
  const TinyWorkplace place;
  const auto refused = [&place](const std::string& text, const std::string& message) {
    write_text(place.path("faults.toml"), text);
    check_refused(place.train("run", {"--faults", place.text_path("faults.toml")}), message);
    CHECK_FALSE(std::filesystem::exists(place.path("run")));
  };
  refused("[[fault]]\nkind = \"explode\"\nstage = 1\nat = \"step\"\n",
          "line 2: kind: 'explode' is not known");
  refused("[[fault]]\nkind = \"throw\"\nstage = 7\nat = \"step\"\n", "line 3: stage: '7' is not there");
  refused("[[fault]]\nkind = \"throw\"\nstage = 1\nat = \"lunch\"\n", "line 4: at: 'lunch' is not known");
  refused("[[fault]]\nkind = \"throw\"\nstage = 1\nat = \"step\"\nwidow = 3\n", "line 5: widow: unknown key");
  refused("[[fault]]\nkind = \"throw\"\nstage = \"1\"\nat = \"step\"\n",
          "line 3: stage: must be a whole number");
  refused("[[fault]]\nkind = \"throw\"\nat = \"step\"\n", "line 1: a fault needs stage");
  refused("kind = \"throw\"\n", "line 1: kind: unknown key");
  refused("", "has no [[fault]]");
}

TEST_CASE("chaos trains twice and finds the same bits") {
  const TinyWorkplace place;
  for (const char* placement : {"threads", "processes"}) {
    std::vector<std::string> arguments = place.train(
        std::string("chaos-") + placement, {"--windows", "5", "--seed", "4", "--faults", "6",
                                            "--restarts-max", "20", "--placement", placement, "--json"});
    arguments.front() = "chaos";
    const CommandOutput output = run_zerolock(arguments);
    INFO(output.err);
    REQUIRE(output.status == 0);
    const json result = json::parse(output.out);
    CHECK(result["same_adapter"] == true);
    CHECK(result["faults"].size() == 6);
    CHECK(output.err.find("injected fault: ") != std::string::npos);
  }
}

TEST_CASE("a fault is ordered for a running cluster") {
  const TinyWorkplace place;
  const std::vector<std::string> proof{"--token", "secret"};
  REQUIRE(run_zerolock(place.train("alone", {"--windows", "400", "--stages", "2"})).status == 0);
  std::vector<std::string> arguments =
      place.train("run", std::vector<std::string>{"--windows", "400", "--stages", "2", "--listen",
                                                  "127.0.0.1:0", "--executors", "2"} +
                             proof);
  arguments.front() = "coordinator";
  CommandProcess coordinator(arguments);
  REQUIRE(coordinator.wait_for_error_text("waiting at "));
  const std::string& said = coordinator.error_text();
  const std::size_t begin = said.find("waiting at ") + 11;
  const std::string address = said.substr(begin, said.find(' ', begin) - begin);
  std::vector<std::unique_ptr<CommandProcess>> executors;
  for (const char* name : {"a", "b"}) {
    executors.push_back(std::make_unique<CommandProcess>(
        std::vector<std::string>{"executor", "--join", address, "--name", name, "--cache",
                                 place.text_path(std::string("cache-") + name)} +
        proof));
  }
  REQUIRE(coordinator.wait_for_error_text("info: window "));
  const auto inject = [&](const std::vector<std::string>& words) {
    return run_zerolock(std::vector<std::string>{"inject"} + words +
                        std::vector<std::string>{"--coordinator", address} + proof);
  };
  const CommandOutput unknown = inject({"throw", "--stage", "9"});
  CHECK(unknown.status == 1);
  CHECK(unknown.err.find("stage 9 is not there; the run has 2 stages") != std::string::npos);
  const CommandOutput ordered =
      inject({"throw", "--stage", "1", "--at", "window=390,micro_batch=1,phase=backward"});
  INFO(ordered.err);
  REQUIRE(ordered.status == 0);
  CHECK(ordered.out == "ordered: throw stage=1,window=390,micro_batch=1,at=backward\n");
  CHECK(coordinator.wait_for_error_text(
      "stage 1 restarted from window 389 (incarnation 2): an injected fault"));
  CHECK(coordinator.finish().status == 0);
  for (const auto& executor : executors) CHECK(executor->finish().status == 0);
  CHECK(read_text(place.path("run") / weights_file) == read_text(place.path("alone") / weights_file));
}

TEST_CASE("what cannot be ordered is refused with one line") {
  const auto refused = [](const std::vector<std::string>& words, int status, const std::string& message) {
    const CommandOutput output = run_zerolock(std::vector<std::string>{"inject"} + words);
    INFO(output.err);
    CHECK(output.status == status);
    CHECK(output.error_lines().size() == 1);
    CHECK(output.err.find(message) != std::string::npos);
  };
  refused({}, 2, "KIND: is required");
  refused({"throw"}, 2, "--stage: is required");
  refused({"throw", "--stage", "0"}, 2, "--coordinator: is required");
  refused({"explode", "--stage", "0", "--coordinator", "127.0.0.1:1"}, 2, "KIND: 'explode' is not known");
  refused({"throw", "--stage", "0", "--at", "phase=lunch", "--coordinator", "127.0.0.1:1"}, 2,
          "phase: 'lunch'");
  refused({"throw", "--stage", "0", "--coordinator", "127.0.0.1:1", "--token", "x"}, 1, "127.0.0.1:1");
}
