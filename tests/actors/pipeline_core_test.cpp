/// All pure cores of a run wired together and driven in random order, with crashes, lost connections and
/// repeated messages: what is trained must be what an undisturbed run trains, and every bound must hold at
/// every moment.

#include <ATen/ATen.h>

#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "actors/core/batch_source_core.hpp"
#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/core/outbound_buffer_core.hpp"
#include "actors/core/scheduler_core.hpp"
#include "actors/core/stage_progress_core.hpp"
#include "tests/actors/random_seeds.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;

namespace {

constexpr std::uint64_t entry_bytes = 16;

/// Window 0, the calibration, has two.
std::uint64_t micro_batches_of(WindowIndex window) {
  return window.value == 0 ? 2 : 1 + window.value % 3;
}

Entry make_entry(const BatchPosition& position, Incarnation producer) {
  Entry entry;
  entry.position = position;
  entry.producer = producer;
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, 2};
  entry.layout = layout;
  entry.payload = at::zeros({2}, at::kDouble);
  return entry;
}

/// What a stage has trained: depends on every position and on their order.
using Trained = std::uint64_t;
Trained train(Trained state, const BatchPosition& position) {
  return (state * 1099511628211ULL) ^ (position.window.value * 31 + position.micro_batch + 7);
}

/// What the last stage's forwards of window 0 amount to, and all stages are fitted to.
Trained calibration_targets() {
  Trained state = 3;
  for (std::uint64_t i = 0; i < micro_batches_of(WindowIndex{0}); ++i)
    state = train(state, {WindowIndex{0}, i});
  return state;
}
Trained fit(Trained state, Trained targets) {
  return (state * 31) ^ targets;
}

struct SentEntry {
  std::uint64_t session;
  Entry entry;
};
struct SentCredit {
  std::uint64_t session;
  EntryCredit credit;
};

/// One boundary with what is on its way.
struct Boundary {
  std::deque<SentEntry> down;
  std::deque<SentCredit> up;
  std::uint64_t session = 0;
};

struct Stage {
  std::optional<HiddenStateBufferCore> inbound;
  std::optional<OutboundBufferCore> outbound;
  std::optional<StageProgressCore> worker;
  Incarnation incarnation;
  Trained trained = 0;             // with the micro-batches of the open window
  Trained seen = 3;                // of the calibration, in this life
  std::optional<Trained> targets;  // on their way to the worker
  std::uint64_t asked = 0;         // entries, by this life, and not given yet
  bool attached = false;           // this life has asked for the targets, and has not been given them
  int fits = 0;
  std::map<WindowIndex, Trained> disk;
  std::deque<std::pair<WindowIndex, Trained>> saving;
  std::deque<BatchPosition> given;  // to the worker, not yet received by it
  std::deque<OutputAllowance> allowances;
};

class Pipeline {
 public:
  Pipeline(std::uint64_t seed, std::uint64_t stages, bool calibrates)
      : random_(seed),
        initial_(calibrates ? WindowsDone{} : WindowsDone{WindowIndex{0}}),
        depth_(1 + random_.below(3)),
        every_(1 + random_.below(2)),
        bytes_max_(entry_bytes * (6 + random_.below(10))),
        source_(micro_batches_of),
        schedule_({stages, WindowIndex{1}, last_, every_ + 2, 2, calibrates}),
        boundaries_(stages),
        stages_(stages) {
    for (std::uint64_t k = 0; k < stages; ++k) {
      stages_[k].inbound.emplace(HiddenStateBufferSetup{
          StageIndex{k}, initial_, depth_, bytes_max_, {every_, last_}, micro_batches_of});
      if (k + 1 < stages) {
        stages_[k].outbound.emplace(
            OutboundBufferSetup{StageIndex{k}, initial_, bytes_max_, micro_batches_of});
      }
    }
    for (std::uint64_t k = stages; k-- > 0;) {
      connect(k);
      start_worker(k, initial_, true);
    }
    obey(schedule_.start());
  }

  /// Returns whether the run ended; never ending is a failure of liveness.
  bool run() {
    for (int event = 0; event < 200'000 && !finished_; ++event) {
      disturb();
      step();
      check_bounds();
    }
    return finished_;
  }

  [[nodiscard]] Trained result(std::uint64_t k) const { return stages_[k].disk.at(last_); }
  [[nodiscard]] static Trained expected(bool calibrates) {
    Trained state = calibrates ? fit(0, calibration_targets()) : 0;
    for (WindowIndex w{1}; w <= last_; w = w.next()) {
      for (std::uint64_t i = 0; i < micro_batches_of(w); ++i) state = train(state, {w, i});
    }
    return state;
  }
  [[nodiscard]] int crashes() const { return crashes_; }
  [[nodiscard]] std::uint64_t joint_forwards() const { return joint_forwards_; }
  [[nodiscard]] int fits() const {
    int sum = 0;
    for (const Stage& stage : stages_) sum += stage.fits;
    return sum;
  }

 private:
  static constexpr WindowIndex last_{8};

  void obey(const SchedulerOrders& orders) {
    if (orders.grant) source_.grant(*orders.grant);
    if (orders.recovery_line) {
      targets_.reset();
      targets_released_ = true;
      for (std::uint64_t k = 0; k + 1 < stages_.size(); ++k) {
        stages_[k].outbound->recovery_line(*orders.recovery_line);
        tell_worker(k);
      }
    }
    finished_ = finished_ || orders.finished;
  }

  void connect(std::uint64_t k) {
    Boundary& boundary = boundaries_[k];
    HiddenStateBufferCore& inbound = *stages_[k].inbound;
    inbound.open_session(++boundary.session);
    boundary.up.clear();  // the old connection is gone; what was on its way down may still arrive
    if (k == 0) {
      source_.resume(inbound.next_expected());
    } else {
      REQUIRE(stages_[k - 1].outbound->resume(inbound.next_expected()));
      tell_worker(k - 1);
    }
    boundary.up.push_back({boundary.session, inbound.credit()});
  }

  void start_worker(std::uint64_t k, const WindowsDone& committed, bool save_first) {
    Stage& stage = stages_[k];
    stage.incarnation = stage.incarnation.next();
    stage.given.clear();
    stage.allowances.clear();
    stage.asked = 0;
    const bool on_disk = committed && stage.disk.contains(*committed);
    stage.trained = on_disk ? stage.disk.at(*committed) : 0;
    stage.seen = 3;
    stage.targets.reset();
    stage.attached = !committed;
    if (stage.attached) REQUIRE_FALSE(targets_released_);
    stage.inbound->rewind(committed);
    stage.worker.emplace(StageProgressSetup{committed,
                                            save_first,
                                            k + 1 < stages_.size(),
                                            2,
                                            {every_, last_},
                                            micro_batches_of,
                                            chunk_local_schedule,
                                            false,
                                            0,
                                            stage.incarnation.value > 1 ? 1 + random_.below(4) : 1});
    tell_worker(k);
  }

  void tell_worker(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.outbound && stage.outbound->next()) stage.allowances.push_back(stage.outbound->allowance());
  }

  /// A crash, a lost connection or a repeated message, now and then.
  void disturb() {
    const std::uint64_t k = random_.below(stages_.size());
    if (crashes_ < 12 && random_.one_in(60)) {
      ++crashes_;
      Stage& stage = stages_[k];
      while (!stage.saving.empty())
        finish_saving(k);  // a keeper restores only after what it was given before
      const bool saved = !stage.disk.empty();
      start_worker(k, saved ? WindowsDone{stage.disk.rbegin()->first} : initial_, !saved);
    } else if (crashes_ < 12 && random_.one_in(80)) {
      ++crashes_;
      connect(k);
    } else if (random_.one_in(50) && !boundaries_[k].down.empty()) {
      // Sent once more by the same connection: it takes credit from the sender's view of it in neither case.
      SentEntry again = boundaries_[k].down.back();
      again.session = 0;
      boundaries_[k].down.push_back(again);
    }
  }

  void step() {
    const std::uint64_t k = random_.below(stages_.size());
    switch (random_.below(6)) {
      case 0:
        send_down(k);
        break;
      case 1:
        deliver_entry(k);
        break;
      case 2:
        deliver_credit(k);
        break;
      case 3:
        work(k);
        break;
      case 4:
        give_targets(k);
        break;
      default:
        finish_saving(k);
    }
  }

  void send_down(std::uint64_t k) {
    Boundary& boundary = boundaries_[k];
    if (k == 0) {
      if (const auto position = source_.next(); position && source_.sent(entry_bytes)) {
        boundary.down.push_back({boundary.session, make_entry(*position, Incarnation{0})});
      }
    } else if (const Entry* entry = stages_[k - 1].outbound->next_to_send()) {
      boundary.down.push_back({boundary.session, *entry});
      tell_worker(k - 1);
    }
  }

  void deliver_entry(std::uint64_t k) {
    if (boundaries_[k].down.empty()) return;
    const SentEntry sent = boundaries_[k].down.front();
    boundaries_[k].down.pop_front();
    REQUIRE(stages_[k].inbound->receive(sent.session, sent.entry) != Reception::over_bound);
    announce(k);
  }

  void announce(std::uint64_t k) {
    boundaries_[k].up.push_back({boundaries_[k].session, stages_[k].inbound->credit()});
  }

  void deliver_credit(std::uint64_t k) {
    if (boundaries_[k].up.empty()) return;
    const SentCredit sent = boundaries_[k].up.front();
    boundaries_[k].up.pop_front();
    if (sent.session != boundaries_[k].session) return;
    if (k == 0) {
      source_.credit(sent.credit);
    } else {
      stages_[k - 1].outbound->credit(sent.credit);
      tell_worker(k - 1);
    }
  }

  /// The coordinator answers a worker that has attached; or its answer arrives.
  void give_targets(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.targets) {
      stage.worker->targets_known();
      return;
    }
    if (stage.attached && targets_) {
      stage.targets = targets_;
      stage.attached = false;
    }
  }

  void fit_stage(std::uint64_t k) {
    Stage& stage = stages_[k];
    REQUIRE_FALSE(stage.disk.contains(WindowIndex{0}));  // what is durable is never calibrated again
    REQUIRE(stage.seen == calibration_targets());        // every entry, once and in order
    stage.trained = fit(stage.trained, stage.targets.value());
    ++stage.fits;
    stage.worker->fitted();
    obey(schedule_.committed(StageIndex{k}, stage.incarnation, WindowIndex{0}));
  }

  void work(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (!stage.allowances.empty()) {
      stage.worker->allowance(stage.allowances.front());
      stage.allowances.pop_front();
    }
    const StageAction action = stage.worker->next();
    switch (action.kind) {
      case StageAction::Kind::take:
        stage.worker->asked();
        ++stage.asked;
        break;
      case StageAction::Kind::wait_input:
        if (const Entry* entry = stage.inbound->take()) {
          --stage.asked;
          stage.worker->received(entry->position, 2);
          announce(k);
        } else if (stage.worker->replays() && random_.one_in(4)) {
          stage.worker->caught_up();
        }
        break;
      case StageAction::Kind::forward:
        if (stage.worker->replays() && take_another(k)) break;
        if (action.together > 1) {
          const std::uint64_t count = 1 + random_.below(action.together);
          stage.worker->begins_together(count);
          joint_forwards_ += count - 1;
        }
        if (action.emit) REQUIRE(stage.outbound->put(make_entry(action.position, stage.incarnation)));
        stage.worker->forwarded(entry_bytes);
        break;
      case StageAction::Kind::backward:
        stage.trained = train(stage.trained, action.position);
        stage.worker->trained();
        break;
      case StageAction::Kind::step:
        stage.worker->stepped();
        obey(schedule_.committed(StageIndex{k}, stage.incarnation, action.position.window));
        break;
      case StageAction::Kind::calibrate:
        stage.seen = train(stage.seen, action.position);
        if (action.emit) REQUIRE(stage.outbound->put(make_entry(action.position, stage.incarnation)));
        stage.worker->forwarded(entry_bytes);
        break;
      case StageAction::Kind::hand_over:
        REQUIRE(k + 1 == stages_.size());
        REQUIRE_FALSE(targets_released_);
        if (!targets_) targets_ = stage.seen;
        REQUIRE(targets_ == stage.seen);
        stage.worker->handed_over();
        break;
      case StageAction::Kind::fit:
        fit_stage(k);
        break;
      case StageAction::Kind::checkpoint:
        stage.saving.emplace_back(action.position.window, stage.trained);
        stage.worker->saved();
        break;
      case StageAction::Kind::blocked:
        FAIL("the byte bound was chosen large enough");
        break;
      default:
        break;
    }
  }

  /// Mostly, a worker that replays takes what waits before it does the forward of what it has.
  bool take_another(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.asked == 0 || random_.one_in(8)) return false;
    const Entry* entry = stage.inbound->take();
    if (entry == nullptr) return false;
    --stage.asked;
    stage.worker->received(entry->position, 2);
    announce(k);
    return true;
  }

  void finish_saving(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.saving.empty()) return;
    const auto [window, trained] = stage.saving.front();
    stage.saving.pop_front();
    const auto known = stage.disk.find(window);
    REQUIRE((known == stage.disk.end() || known->second == trained));
    stage.disk[window] = trained;
    stage.inbound->made_durable(window);
    announce(k);
    stage.worker->made_durable(window);
    obey(schedule_.durable(StageIndex{k}, window));
  }

  void check_bounds() const {
    for (const Stage& stage : stages_) {
      REQUIRE(stage.inbound->held_bytes() <= bytes_max_);
      if (stage.outbound) REQUIRE(stage.outbound->held_bytes() <= bytes_max_);
      if (stage.outbound && crashes_ == 0) REQUIRE(stage.outbound->unsent_entries() <= depth_);
      if (crashes_ == 0) REQUIRE(stage.inbound->waiting_entries() <= depth_);
    }
  }

  test::Random random_;
  WindowsDone initial_;
  std::uint64_t depth_;
  std::uint64_t every_;
  std::uint64_t bytes_max_;
  BatchSourceCore source_;
  SchedulerCore schedule_;
  std::vector<Boundary> boundaries_;
  std::vector<Stage> stages_;
  std::optional<Trained> targets_;  // at the coordinator
  bool targets_released_ = false;
  bool finished_ = false;
  int crashes_ = 0;
  std::uint64_t joint_forwards_ = 0;  // beside the first of those that were begun together
};

}  // namespace

TEST_CASE("whatever crashes or repeats, every micro-batch is trained once and in order", "[pipeline]") {
  for (const bool calibrates : {false, true}) {
    int crashes = 0;
    std::uint64_t stages_sum = 0;
    int fits = 0;
    std::uint64_t joint_forwards = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      INFO("seed " << seed << (calibrates ? ", calibrating" : ""));
      const std::uint64_t stages = 1 + seed % 4;
      Pipeline pipeline(seed, stages, calibrates);
      REQUIRE(pipeline.run());
      for (std::uint64_t k = 0; k < stages; ++k)
        REQUIRE(pipeline.result(k) == Pipeline::expected(calibrates));
      crashes += pipeline.crashes();
      stages_sum += stages;
      fits += pipeline.fits();
      joint_forwards += pipeline.joint_forwards();
    }
    CHECK(crashes > 500);                                        // or the test would show little
    CHECK(joint_forwards > 200);                                 // the same
    CHECK((fits > static_cast<int>(stages_sum)) == calibrates);  // some were calibrated more than once
    CHECK((fits == 0) != calibrates);
  }
}
