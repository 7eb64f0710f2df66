// Injected faults carried out in one process: what they do, and that the run ends in the bits of the
// undisturbed one.

#include "tests/supervision/cluster_support.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <latch>
#include <thread>

#include "actors/checkpoint_files.hpp"
#include "supervision/fault_injector.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using Kind = ClusterOutcome::Kind;

namespace {

ClusterResult run_with(const std::vector<std::string>& faults, std::uint64_t happen) {
  const TemporaryFolder folder;
  std::vector<Fault> plan;
  for (const std::string& text : faults) plan.push_back(parse_fault(text, "test"));
  FaultInjector injector(plan, {folder.path(), {}, {}, {}});
  ClusterCase given;
  given.fault = injector.hook();
  ClusterResult result = run_cluster(given, folder);
  CHECK(injector.happened() == happen);
  return result;
}

void check_bits(const ClusterResult& result) {
  static const auto expected = train_in_sequence(3, 4, 3, 4);
  REQUIRE(result.outcome.failure.empty());
  REQUIRE(result.outcome.kind == Kind::finished);
  for (std::size_t k = 0; k < 3; ++k) CHECK(same_state(result.outcome.stages[k].state, expected[k]));
}

const std::vector<std::string> places{
    "entry-received", "forward-begin",   "forward-end",       "entry-sent", "backward",
    "step",           "checkpoint-temp", "checkpoint-rename", "manifest",   "durable-ack"};

}  // namespace

TEST_CASE(
    "whatever is thrown, killed, damaged or full at any place of any stage changes no bit and no other stage",
    "[fault]") {
  for (const std::string kind : {"throw", "kill", "corrupt-checkpoint", "disk-full"}) {
    for (const std::string& place : places) {
      for (std::uint64_t k = 0; k < 3; ++k) {
        const std::string fault =
            kind + " stage=" + std::to_string(k) + ",window=2,micro_batch=1,at=" + place;
        INFO(fault);
        const ClusterResult result = run_with({fault}, 1);
        check_bits(result);
        for (std::size_t other = 0; other < 3; ++other) {
          if (kind != "corrupt-checkpoint" && other != k) {
            CHECK(result.outcome.stages[other].incarnation == Incarnation{1});
          }
        }
        CHECK_FALSE(result.heard.restarts.empty());
      }
    }
  }
}

TEST_CASE("a killed actor and a full disk are named", "[fault]") {
  const ClusterResult killed = run_with({"kill stage=1,window=2,at=backward"}, 1);
  REQUIRE(killed.heard.restarts.size() == 1);
  CHECK_THAT(killed.heard.restarts.front(), Catch::Contains("it was killed"));
  const ClusterResult full = run_with({"disk-full stage=1,window=2,at=backward"}, 1);
  REQUIRE(full.heard.restarts.size() == 1);
  CHECK_THAT(full.heard.restarts.front(),
             Catch::Contains("stage-1/window-") && Catch::Contains("No space left on device"));
}

TEST_CASE("a disk that stays full ends the run with the chain of causes, and what was durable stays",
          "[fault]") {
  const TemporaryFolder folder;
  FaultInjector injector({parse_fault("disk-full stage=1,window=3,at=backward,times=1000", "test")},
                         {folder.path(), {}, {}, {}});
  ClusterCase given;
  given.fault = injector.hook();
  const ClusterOutcome outcome = run_cluster(given, folder).outcome;
  CHECK(outcome.kind == Kind::failed);
  CHECK_FALSE(outcome.hangs);
  CHECK_THAT(outcome.failure, Catch::Contains("stage 1 failed 6 times") &&
                                  Catch::Contains("stage-1/window-") &&
                                  Catch::Contains("No space left on device"));
  const auto expected = train_in_sequence(3, outcome.durable.value, 3, 4);
  for (std::uint64_t k = 0; k < 3; ++k) {
    CHECK(same_state(read_checkpoint(folder.path(), StageIndex{k}, outcome.durable), expected[k]));
  }
}

TEST_CASE("a thread that hangs for a while goes on, and nothing is restarted", "[fault]") {
  const ClusterResult result = run_with({"hang stage=1,window=2,at=backward,seconds=0.05"}, 1);
  check_bits(result);
  CHECK(result.heard.restarts.empty());
}

TEST_CASE("a thread that hangs for good is released with the injector", "[fault]") {
  std::latch hangs(1);
  FaultInjector injector({parse_fault("hang at=step", "test")},
                         {{}, {}, {}, [&hangs](const std::string&) { hangs.count_down(); }});
  std::thread thread([hook = injector.hook()] {
    hook(FaultPoint::step, StageIndex{0}, Incarnation{1}, {WindowIndex{1}, 0});
  });
  hangs.wait();
  injector.release();
  thread.join();
  CHECK(injector.outstanding().empty());
}

TEST_CASE("a thread that hangs for good goes on when that is ordered", "[fault]") {
  std::latch hangs(1);
  FaultInjector injector({parse_fault("hang stage=1,at=backward", "test")},
                         {{}, {}, {}, [&hangs](const std::string&) { hangs.count_down(); }});
  std::thread thread([hook = injector.hook()] {
    hook(FaultPoint::backward, StageIndex{1}, Incarnation{1}, {WindowIndex{1}, 0});
  });
  hangs.wait();
  injector.add(parse_fault("release stage=1", "test"));
  thread.join();
  CHECK(injector.outstanding().empty());
}

TEST_CASE("a process is killed, or stopped and continued", "[fault]") {
  const auto in_child = [](const std::string& fault) {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultInjector injector({parse_fault(fault, "test")}, {});
      injector.hook()(FaultPoint::step, StageIndex{0}, Incarnation{1}, {WindowIndex{1}, 0});
      ::_exit(7);
    }
    return child;
  };
  int status = 0;
  const pid_t killed = in_child("sigkill at=step");
  REQUIRE(::waitpid(killed, &status, 0) == killed);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);

  const pid_t stopped = in_child("sigstop at=step,seconds=0.1");
  REQUIRE(::waitpid(stopped, &status, WUNTRACED) == stopped);
  CHECK(WIFSTOPPED(status));
  REQUIRE(::waitpid(stopped, &status, 0) == stopped);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a fault that this process has no target for is said", "[fault]") {
  FaultInjector injector(
      {parse_fault("drop-link at=step", "test"), parse_fault("corrupt-frame at=backward", "test")}, {});
  const auto hook = injector.hook();
  CHECK_THROWS_WITH(hook(FaultPoint::step, StageIndex{0}, Incarnation{1}, {WindowIndex{1}, 0}),
                    Catch::Contains("no link") && Catch::Contains("stage 0, window 1, micro-batch 0"));
  CHECK_THROWS_WITH(hook(FaultPoint::backward, StageIndex{0}, Incarnation{1}, {WindowIndex{1}, 0}),
                    Catch::Contains("no frame"));
}

TEST_CASE("a step that hangs pauses the run, in spite of its thread, with the chain of causes", "[fault]") {
  // What the thread that hangs uses is left to it, as a command leaves it to the end of the process.
  const auto* folder = new TemporaryFolder;
  auto* injector = new FaultInjector({parse_fault("hang stage=1,window=3,micro_batch=1,at=backward", "test")},
                                     {folder->path(), {}, {}, {}});
  auto* accounts = new std::vector<std::unique_ptr<MemoryAccount>>;
  for (int k = 0; k < 3; ++k) accounts->push_back(std::make_unique<MemoryAccount>());
  ClusterPlan plan;
  plan.run_id = "test";
  plan.stages = 3;
  plan.last_window = WindowIndex{4};
  plan.checkpoints = folder->path();
  plan.hang_after = std::chrono::milliseconds(200);
  const ClusterOutcome outcome = run_local_cluster(
      plan, std::make_shared<CountingBatches>(4, 3), simulated, *accounts, [] { return false; }, {},
      injector->hook());
  CHECK(outcome.kind == Kind::failed);
  CHECK(outcome.hangs);
  CHECK(outcome.durable == WindowIndex{2});
  CHECK_THAT(outcome.failure, Catch::StartsWith("executor local failed because stage 1 hangs at window 3, "
                                                "micro-batch 1: the backward has taken 0."));
  CHECK_THAT(outcome.failure, Catch::Contains("it usually takes"));
}
