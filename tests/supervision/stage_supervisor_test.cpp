/// The rules of one stage, walked under CAF's hand-cranked scheduler: no threads, and time moves only when
/// told to.

#include "supervision/stage_supervisor.hpp"

#include <caf/scheduler/test_coordinator.hpp>

#include "actors/batch_source.hpp"
#include "actors/failure.hpp"
#include "actors/targets_holder.hpp"
#include "tests/supervision/cluster_support.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using namespace zerolock::test;
using namespace std::chrono_literals;

namespace {

/// What the actors around the stage heard.
struct Notes {
  std::vector<WindowIndex> committed;
  std::vector<WindowIndex> durable;
  std::vector<StageRestart> restarts;
  std::vector<HiddenStateBufferActor> inbounds;  // one for each time that buffers were started
};

SchedulerActor::behavior_type note_scheduler(SchedulerActor::pointer self, Notes* notes) {
  contain_failures(self);
  return {[](start_atom) {}, [](attach_atom, StageIndex, const StageControlActor&) {},
          [notes](commit_atom, StageIndex, Incarnation, WindowIndex window) {
            notes->committed.push_back(window);
          },
          [notes](durable_atom, StageIndex, WindowIndex window) { notes->durable.push_back(window); },
          [](stop_atom) {}};
}

RunRecorderActor::behavior_type note_recorder(RunRecorderActor::pointer self, Notes* notes) {
  contain_failures(self);
  return {[](report_atom, const WindowReport&) {}, [](calibrated_atom, StageIndex) {},
          [](spans_atom, const std::vector<TraceSpan>&) {},
          [notes](restart_atom, const StageRestart& restart) { notes->restarts.push_back(restart); }};
}

ExecutorSupervisorActor::behavior_type join_boundary(ExecutorSupervisorActor::pointer self, Notes* notes,
                                                     const BatchSourceActor& source) {
  contain_failures(self);
  return {[=](ports_atom, StageIndex, const HiddenStateBufferActor& inbound, const UpstreamActor&) {
            notes->inbounds.push_back(inbound);
            self->send(inbound, connect_atom::value, std::uint64_t{notes->inbounds.size()},
                       UpstreamActor{source});
          },
          [](summary_atom) { return std::vector<StageSummary>{}; }};
}

struct SteppedConfig : caf::actor_system_config {
  SteppedConfig() { set("scheduler.policy", caf::atom("testing")); }
};

class SteppedStage {
 public:
  explicit SteppedStage(RestartIntensity intensity, bool calibrates = false) {
    commons_->first_window = WindowIndex{1};
    commons_->calibrates = calibrates;
    commons_->checkpoints = {1, WindowIndex{windows}};
    commons_->micro_batches = [this](WindowIndex window) { return batches_->micro_batches(window); };
    commons_->depth = 2;
    commons_->buffer_bytes_max = 1 << 20;
    commons_->checkpoint_root = folder_.path();
    commons_->intensity = intensity;
    commons_->own_threads = false;
    commons_->fault = [this](FaultPoint point, StageIndex, Incarnation, const BatchPosition& position) {
      if (fault && fault(point, position)) throw std::runtime_error("an injected fault");
    };
    source_ = spawn_batch_source(*self_.ptr(), batches_, account_);
    commons_->scheduler = system_.spawn(note_scheduler, &notes);
    commons_->recorder = system_.spawn(note_recorder, &notes);
    executor_ = system_.spawn(join_boundary, &notes, source_);
    StageSupervisorSetup setup;
    commons_->targets = spawn_targets_holder(*self_.ptr());
    setup.make_backend = [calibrates] {
      return make_simulated_backend(StageIndex{0}, simulated_width, {}, calibrates);
    };
    setup.account = &account_;
    setup.executor = executor_;
    supervisor_ = spawn_stage_supervisor(*self_.ptr(), commons_, std::move(setup));
  }
  ~SteppedStage() {
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(supervisor_), caf::actor_cast<caf::actor>(source_),
          caf::actor_cast<caf::actor>(executor_), caf::actor_cast<caf::actor>(commons_->scheduler),
          caf::actor_cast<caf::actor>(commons_->targets), caf::actor_cast<caf::actor>(commons_->recorder)}) {
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    }
    run();
    notes.inbounds.clear();
  }
  SteppedStage(const SteppedStage&) = delete;
  SteppedStage& operator=(const SteppedStage&) = delete;

  void run() { scheduler_.run(); }
  void pass(std::chrono::nanoseconds time) {
    scheduler_.advance_time(time);
    run();
  }
  void grant(std::uint64_t window) {
    caf::anon_send(source_, grant_atom::value, WindowIndex{window});
    run();
  }
  /// The reason with which the supervisor has ended; empty while it lives.
  std::string ended() {
    std::string cause;
    self_->receive([&](const caf::down_msg& down) { cause = cause_of(down.reason); },
                   caf::after(0s) >> [] {});
    return cause;
  }
  void kill_supervisor() { caf::anon_send_exit(supervisor_, caf::exit_reason::kill); }
  void stop_supervisor() { caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown); }
  [[nodiscard]] std::size_t running() { return system_.registry().running(); }

  static constexpr std::uint64_t windows = 20;
  Notes notes;
  std::function<bool(FaultPoint, const BatchPosition&)> fault;

 private:
  TemporaryFolder folder_;
  SteppedConfig config_;
  caf::actor_system system_{config_};
  caf::scheduler::test_coordinator& scheduler_ =
      dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  caf::scoped_actor self_{system_};
  MemoryAccount account_;
  std::shared_ptr<const CountingBatches> batches_ = std::make_shared<CountingBatches>(windows, 2);
  std::shared_ptr<StageCommons> commons_ = std::make_shared<StageCommons>();
  BatchSourceActor source_;
  ExecutorSupervisorActor executor_;
  StageSupervisorActor supervisor_;
};

auto always(FaultPoint point, std::uint64_t window) {
  return [=](FaultPoint reached, const BatchPosition& position) {
    return reached == point && position.window.value == window;
  };
}

}  // namespace

TEST_CASE("a stage trains what is granted and nothing more", "[stage]") {
  SteppedStage stage({3, 60s, 10ms, 1s});
  stage.grant(2);
  CHECK((stage.notes.committed == std::vector<WindowIndex>{WindowIndex{0}, WindowIndex{1}, WindowIndex{2}}));
  CHECK(stage.notes.durable.back() == WindowIndex{2});
  CHECK(stage.notes.restarts.empty());
}

TEST_CASE("the first restart is at once, the second after its pause", "[stage]") {
  SteppedStage stage({5, 60s, 10ms, 1s});
  int left = 2;
  stage.fault = [&](FaultPoint point, const BatchPosition& position) {
    return point == FaultPoint::backward && position.window.value == 2 && left-- > 0;
  };
  stage.grant(3);
  REQUIRE(stage.notes.restarts.size() == 1);
  CHECK(stage.notes.restarts[0].incarnation == Incarnation{2});
  CHECK(stage.notes.restarts[0].window == WindowIndex{1});
  CHECK(stage.notes.restarts[0].cause == "an injected fault");
  stage.pass(9ms);
  CHECK(stage.notes.restarts.size() == 1);
  stage.pass(1ms);
  REQUIRE(stage.notes.restarts.size() == 2);
  CHECK(stage.notes.restarts[1].incarnation == Incarnation{3});
  CHECK(stage.notes.committed.back() == WindowIndex{3});
  CHECK(stage.notes.inbounds.size() == 1);  // the buffer lived on
}

TEST_CASE("too many failures within the period climb, with their cause", "[stage]") {
  SteppedStage stage({2, 60s, 10ms, 1s});
  stage.fault = always(FaultPoint::step, 1);
  stage.grant(1);
  CHECK(stage.notes.restarts.size() == 1);
  CHECK(stage.ended().empty());
  stage.pass(10ms);
  CHECK(stage.notes.restarts.size() == 2);
  CHECK(stage.ended() == "stage 0 failed 3 times within 60 s, the last time because an injected fault");
}

TEST_CASE("failures far apart do not add up", "[stage]") {
  SteppedStage stage({1, 60s, 10ms, 1s});
  bool armed = false;
  stage.fault = [&](FaultPoint point, const BatchPosition&) {
    return point == FaultPoint::entry_received && std::exchange(armed, false);
  };
  for (std::uint64_t window = 1; window <= 6; ++window) {
    armed = true;
    stage.grant(window);
    CHECK(stage.notes.restarts.size() == window);
    CHECK(stage.notes.committed.back() == WindowIndex{window});
    stage.pass(61s);
  }
  CHECK(stage.ended().empty());
}

TEST_CASE("a keeper that fails takes the worker along and leaves the buffer", "[stage]") {
  SteppedStage stage({3, 60s, 10ms, 1s});
  bool armed = true;
  stage.fault = [&](FaultPoint point, const BatchPosition& position) {
    return point == FaultPoint::manifest && position.window.value == 2 && std::exchange(armed, false);
  };
  stage.grant(3);
  REQUIRE(stage.notes.restarts.size() == 1);
  CHECK(stage.notes.restarts[0].incarnation == Incarnation{2});
  CHECK(stage.notes.inbounds.size() == 1);
  CHECK(stage.notes.committed.back() == WindowIndex{3});
  CHECK(stage.notes.durable.back() == WindowIndex{3});
}

TEST_CASE("a buffer that is killed restarts all of the stage, which goes on from its disk", "[stage]") {
  SteppedStage stage({3, 60s, 10ms, 1s});
  stage.grant(2);
  REQUIRE(stage.notes.inbounds.size() == 1);
  caf::anon_send_exit(stage.notes.inbounds[0], caf::exit_reason::kill);
  stage.run();
  REQUIRE(stage.notes.inbounds.size() == 2);
  REQUIRE(stage.notes.restarts.size() == 1);
  CHECK(stage.notes.restarts[0].window == WindowIndex{2});
  CHECK(stage.notes.restarts[0].cause == "it was killed");
  stage.grant(3);
  CHECK(stage.notes.committed.back() == WindowIndex{3});
}

TEST_CASE("a buffer that is killed during the calibration restarts it, and not once it is durable",
          "[stage]") {
  for (const bool during : {true, false}) {
    SteppedStage stage({3, 60s, 10ms, 1s}, true);
    int forwards = 0;
    stage.fault = [&](FaultPoint point, const BatchPosition& position) {
      if (point != FaultPoint::forward_begin || position.window.value != 0) return false;
      if (++forwards == 1 && during) caf::anon_send_exit(stage.notes.inbounds[0], caf::exit_reason::kill);
      return false;
    };
    stage.run();
    if (!during) {
      CHECK((stage.notes.committed == std::vector<WindowIndex>{WindowIndex{0}}));
      caf::anon_send_exit(stage.notes.inbounds[0], caf::exit_reason::kill);
    }
    stage.grant(2);
    REQUIRE(stage.notes.inbounds.size() == 2);
    CHECK(forwards == (during ? 3 : 2));
    REQUIRE(stage.notes.restarts.size() == 1);
    CHECK(stage.notes.restarts[0].window == (during ? WindowsDone{} : WindowsDone{WindowIndex{0}}));
    CHECK(stage.notes.committed.back() == WindowIndex{2});
    CHECK(stage.notes.durable.back() == WindowIndex{2});
  }
}

TEST_CASE("no child outlives its supervisor, killed or told to stop", "[stage]") {
  for (const bool killed : {true, false}) {
    SteppedStage stage({3, 60s, 10ms, 1s});
    const std::size_t before = stage.running();  // the supervisor, and those that the test made
    stage.grant(1);
    if (killed) {
      stage.kill_supervisor();
    } else {
      stage.stop_supervisor();
    }
    stage.run();
    CHECK_FALSE(stage.ended().empty());
    CHECK(stage.running() == before - 1);
  }
}
