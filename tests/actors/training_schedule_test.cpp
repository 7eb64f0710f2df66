/// The schedules that zerolock is compared with: their order as their papers have it, and pipelines of them
/// over the buffers' cores, which never stop for good and never hold more than they should.

#include "actors/core/training_schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "actors/core/batch_source_core.hpp"
#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/core/outbound_buffer_core.hpp"
#include "actors/core/scheduler_core.hpp"
#include "actors/core/stage_progress_core.hpp"
#include "tests/actors/random_seeds.hpp"

using namespace zerolock;

namespace {

/// "F0 F1 B0 ..." of the steps; "S" a step; micro-batches count on over windows of four.
std::string text_of(const std::vector<ScheduledStep>& steps) {
  std::string text;
  for (const ScheduledStep& step : steps) {
    const std::uint64_t number = 4 * (step.position.window.value - 1) + step.position.micro_batch;
    if (!text.empty()) text += ' ';
    switch (step.kind) {
      case ScheduledStep::Kind::forward:
        text += "F" + std::to_string(number);
        break;
      case ScheduledStep::Kind::backward:
        text += "B" + std::to_string(number);
        break;
      default:
        text += "S";
    }
  }
  return text;
}

/// Two windows of four micro-batches each.
std::string list_of(TrainingSchedule schedule, std::uint64_t stage, std::uint64_t stages) {
  const MicroBatchCount four = [](WindowIndex) { return std::uint64_t{4}; };
  const WindowSchedule make = window_schedule(schedule, StageIndex{stage}, stages);
  const auto first = make({WindowIndex{1}, {WindowIndex{1}, 0}, WindowIndex{2}, four});
  const auto forwards = std::count_if(first.begin(), first.end(), [](const ScheduledStep& step) {
    return step.kind == ScheduledStep::Kind::forward;
  });
  const BatchPosition next{WindowIndex{1 + static_cast<std::uint64_t>(forwards) / 4},
                           static_cast<std::uint64_t>(forwards) % 4};
  return text_of(first) + " | " + text_of(make({WindowIndex{2}, next, WindowIndex{2}, four}));
}

constexpr std::uint64_t rows = 2;
constexpr std::uint64_t entry_bytes = 32;

Entry entry_at(const BatchPosition& position) {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, static_cast<std::int64_t>(rows)};
  Entry entry;
  entry.position = position;
  entry.layout = layout;
  entry.payload = at::zeros({static_cast<std::int64_t>(rows), 4}, at::kFloat);
  return entry;
}

struct Shape {
  TrainingSchedule schedule = TrainingSchedule::gpipe;
  std::uint64_t stages = 1;
  std::uint64_t micro_batches = 1;
};

/// Stages over real cores, with everything that passes between them in queues, worked off in random order.
class Pipeline {
 public:
  Pipeline(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        micro_batches_([m = shape.micro_batches](WindowIndex window) {
          return window.value % 2 == 1 ? m : std::max<std::uint64_t>(1, m / window.value);
        }),
        source_(micro_batches_),
        scheduler_({shape.stages, WindowIndex{1}, last_, 1 + shape.stages + 1, shape.stages + 1, false}) {
    const std::uint64_t depth = 1 + random_.below(3);
    for (std::uint64_t k = 0; k < shape.stages; ++k) {
      Stage& stage = stages_.emplace_back();
      const CheckpointSchedule checkpoints{1, last_};
      stage.inbound.emplace(HiddenStateBufferSetup{StageIndex{k}, WindowIndex{0}, depth, bytes_max_,
                                                   checkpoints, micro_batches_, false});
      if (k + 1 < shape.stages)
        stage.outbound.emplace(
            OutboundBufferSetup{StageIndex{k}, WindowIndex{0}, bytes_max_, micro_batches_, false});
      StageProgressSetup setup;
      setup.has_downstream = k + 1 < shape.stages;
      setup.checkpoints = checkpoints;
      setup.micro_batches = micro_batches_;
      setup.schedule = window_schedule(shape.schedule, StageIndex{k}, shape.stages);
      setup.gradients_return = gradient_reach(shape.schedule) != GradientReach::stage;
      setup.output_bytes_max = bytes_max_;
      stage.worker.emplace(setup);
    }
    for (std::uint64_t k = 0; k < shape.stages; ++k) {
      stages_[k].inbound->open_session(1);
      if (k == 0) {
        source_.resume(stages_[k].inbound->next_expected());
      } else {
        REQUIRE(stages_[k - 1].outbound->resume(stages_[k].inbound->next_expected()));
      }
    }
    if (const auto grant = scheduler_.start().grant) source_.grant(*grant);
  }

  /// Works until nothing moves any more, stopping the run on the way if asked to.
  void run(bool stop) {
    int events = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint64_t tries = 0; tries < 4 * stages_.size(); ++tries) {
        const std::uint64_t k = random_.below(stages_.size());
        moved = act(k, random_.below(3)) || moved;
      }
      for (std::uint64_t k = 0; k < stages_.size(); ++k) {
        for (std::uint64_t what = 0; what < 3; ++what) moved = act(k, what) || moved;
      }
      if (stop && ++events == 7) obey(scheduler_.request_stop());
    }
  }

  void check() const {
    for (std::uint64_t k = 0; k < stages_.size(); ++k) {
      const Stage& stage = stages_[k];
      INFO("stage " << k);
      REQUIRE(stage.worker->next().kind == StageAction::Kind::finished);
      const WindowIndex end = scheduler_.last_window();
      std::uint64_t all = 0;
      for (WindowIndex w{1}; w <= end; w = w.next()) all += micro_batches_(w);
      CHECK(stage.worker->committed() == end);
      CHECK(stage.forwards == all);
      CHECK(stage.backwards == all);
      CHECK(stage.open.empty());
      CHECK(stage.gradients.empty());
      CHECK(stage.inbound->held_bytes() == 0);
      if (stage.outbound) CHECK(stage.outbound->unsent_entries() == 0);
      CHECK(stage.open_most <= open_allowed(k));
    }
  }

  [[nodiscard]] std::uint64_t open_most(std::uint64_t k) const { return stages_[k].open_most; }
  [[nodiscard]] std::uint64_t open_allowed(std::uint64_t k) const {
    return shape_.schedule == TrainingSchedule::gpipe ? shape_.micro_batches : stages_.size() - k;
  }
  [[nodiscard]] std::uint64_t micro_batches() const { return total_through(last_); }
  /// By micro-batch, in order: the number of steps before its forward.
  [[nodiscard]] const std::vector<std::uint64_t>& versions(std::uint64_t k) const {
    return stages_[k].versions;
  }

 private:
  struct Stage {
    std::optional<HiddenStateBufferCore> inbound;
    std::optional<OutboundBufferCore> outbound;
    std::optional<StageProgressCore> worker;
    std::deque<BatchPosition> gradients;  // on their way here
    std::set<BatchPosition> open;
    std::vector<std::uint64_t> versions;
    std::uint64_t open_most = 0;
    std::uint64_t forwards = 0;
    std::uint64_t backwards = 0;
    std::uint64_t steps = 0;
  };

  static constexpr WindowIndex last_{4};

  void obey(const SchedulerOrders& orders) {
    if (orders.grant) source_.grant(*orders.grant);
    if (orders.end_at) {
      for (Stage& stage : stages_) stage.worker->end_at(*orders.end_at);
    }
  }

  bool act(std::uint64_t k, std::uint64_t what) {
    if (what == 0) return send_entry(k);
    if (what == 1) return deliver_gradient(k);
    return work(k);
  }

  bool send_entry(std::uint64_t k) {
    HiddenStateBufferCore& inbound = *stages_[k].inbound;
    if (k == 0) {
      source_.credit(inbound.credit());
      const auto position = source_.next();
      if (!position || !source_.sent(entry_bytes)) return false;
      REQUIRE(inbound.receive(1, entry_at(*position)) == Reception::accepted);
      return true;
    }
    OutboundBufferCore& outbound = *stages_[k - 1].outbound;
    outbound.credit(inbound.credit());
    const Entry* entry = outbound.next_to_send();
    if (entry == nullptr) return false;
    REQUIRE(inbound.receive(1, *entry) == Reception::accepted);
    return true;
  }

  bool deliver_gradient(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.gradients.empty()) return false;
    stage.worker->gradient_received(stage.gradients.front());
    stage.gradients.pop_front();
    return true;
  }

  bool work(std::uint64_t k) {
    Stage& stage = stages_[k];
    if (stage.outbound && stage.outbound->next()) stage.worker->allowance(stage.outbound->allowance());
    const StageAction action = stage.worker->next();
    switch (action.kind) {
      case StageAction::Kind::take:
        stage.worker->asked();
        asked_.insert(k);
        return true;
      case StageAction::Kind::forward:
        forward(stage, action);
        return true;
      case StageAction::Kind::backward:
        backward(k, action.position);
        return true;
      case StageAction::Kind::step:
        CHECK(stage.backwards == total_through(action.position.window));
        ++stage.steps;
        stage.worker->stepped();
        obey(scheduler_.committed(StageIndex{k}, Incarnation{1}, action.position.window));
        return true;
      case StageAction::Kind::checkpoint:
        stage.worker->saved();
        stage.worker->made_durable(action.position.window);
        stage.inbound->made_durable(action.position.window);
        obey(scheduler_.durable(StageIndex{k}, action.position.window));
        return true;
      case StageAction::Kind::blocked:
        FAIL("there is room for every output");
        return false;
      default:
        return take_entry(k);
    }
  }

  bool take_entry(std::uint64_t k) {
    if (!asked_.contains(k)) return false;
    const Entry* entry = stages_[k].inbound->take();
    if (entry == nullptr) return false;
    stages_[k].worker->received(entry->position, rows);
    stages_[k].inbound->handed_over();
    asked_.erase(k);
    return true;
  }

  void forward(Stage& stage, const StageAction& action) {
    if (action.emit) REQUIRE(stage.outbound->put(entry_at(action.position)));
    CHECK(action.emit == stage.outbound.has_value());
    CHECK(stage.open.insert(action.position).second);
    stage.open_most = std::max<std::uint64_t>(stage.open_most, stage.open.size());
    stage.versions.push_back(stage.steps);
    ++stage.forwards;
    stage.worker->forwarded(entry_bytes);
  }

  void backward(std::uint64_t k, const BatchPosition& position) {
    Stage& stage = stages_[k];
    CHECK(stage.open.erase(position) == 1);
    ++stage.backwards;
    stage.worker->trained();
    if (k == 0) return;
    stages_[k - 1].gradients.push_back(position);
    CHECK(stages_[k - 1].gradients.size() <= open_allowed(k - 1));
  }

  [[nodiscard]] std::uint64_t total_through(WindowIndex window) const {
    std::uint64_t total = 0;
    for (WindowIndex w{1}; w <= window; w = w.next()) total += micro_batches_(w);
    return total;
  }

  Shape shape_;
  test::Random random_;
  std::uint64_t bytes_max_ = 4 * entry_bytes;
  MicroBatchCount micro_batches_;
  BatchSourceCore source_;
  SchedulerCore scheduler_;
  std::vector<Stage> stages_;
  std::set<std::uint64_t> asked_;  // workers that wait for an entry
};

const std::vector<TrainingSchedule> across_stages = {TrainingSchedule::gpipe, TrainingSchedule::one_f_one_b,
                                                     TrainingSchedule::pipedream};

}  // namespace

TEST_CASE("forwards and backwards come in the order of the papers", "[schedules]") {
  using enum TrainingSchedule;
  for (const TrainingSchedule schedule : {zerolock::TrainingSchedule::zerolock, bp}) {
    CHECK(list_of(schedule, 0, 1) == "F0 B0 F1 B1 F2 B2 F3 B3 S | F4 B4 F5 B5 F6 B6 F7 B7 S");
  }
  for (std::uint64_t stage = 0; stage < 3; ++stage) {
    CHECK(list_of(gpipe, stage, 3) == "F0 F1 F2 F3 B3 B2 B1 B0 S | F4 F5 F6 F7 B7 B6 B5 B4 S");
  }
  CHECK(list_of(one_f_one_b, 0, 3) == "F0 F1 F2 B0 F3 B1 B2 B3 S | F4 F5 F6 B4 F7 B5 B6 B7 S");
  CHECK(list_of(one_f_one_b, 1, 3) == "F0 F1 B0 F2 B1 F3 B2 B3 S | F4 F5 B4 F6 B5 F7 B6 B7 S");
  CHECK(list_of(one_f_one_b, 2, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 S | F4 B4 F5 B5 F6 B6 F7 B7 S");
  CHECK(list_of(pipedream, 0, 3) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 S | F6 B4 F7 B5 B6 B7 S");
  CHECK(list_of(pipedream, 1, 3) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 S | F5 B4 F6 B5 F7 B6 B7 S");
  CHECK(list_of(pipedream, 2, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 S | F4 B4 F5 B5 F6 B6 F7 B7 S");
  CHECK(list_of(one_f_one_b, 0, 8) == "F0 F1 F2 F3 B0 B1 B2 B3 S | F4 F5 F6 F7 B4 B5 B6 B7 S");
}

TEST_CASE("no schedule stops for good, trains anything twice or holds more than its paper says",
          "[schedules]") {
  for (const TrainingSchedule schedule : across_stages) {
    for (std::uint64_t stages = 1; stages <= 8; ++stages) {
      for (std::uint64_t m = 1; m <= 16; ++m) {
        INFO(to_string(schedule) << ", " << stages << " stages, " << m << " micro-batches");
        Pipeline pipeline({schedule, stages, m}, 100 * stages + m);
        pipeline.run(false);
        pipeline.check();
        for (std::uint64_t k = 0; k < stages; ++k) {
          // What is allowed is also needed, where there are so many micro-batches in a window or in the run.
          const std::uint64_t there = schedule == TrainingSchedule::pipedream ? pipeline.micro_batches() : m;
          CHECK(pipeline.open_most(k) == std::min(pipeline.open_allowed(k), there));
        }
      }
    }
  }
}

TEST_CASE("a run that is stopped ends all stages with the same window", "[schedules]") {
  for (const TrainingSchedule schedule : across_stages) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      INFO(to_string(schedule) << ", seed " << seed);
      Pipeline pipeline({schedule, 1 + seed % 5, 1 + seed % 3}, seed);
      pipeline.run(true);
      pipeline.check();
    }
  }
}

TEST_CASE("PipeDream forwards with the weights that its paper says", "[schedules]") {
  for (std::uint64_t stages = 1; stages <= 4; ++stages) {
    Pipeline pipeline({TrainingSchedule::pipedream, stages, 1}, stages);
    pipeline.run(false);
    for (std::uint64_t k = 0; k < stages; ++k) {
      const std::uint64_t behind = stages - 1 - k;
      for (std::uint64_t i = 0; i < pipeline.versions(k).size(); ++i) {
        CHECK(pipeline.versions(k)[i] == (i > behind ? i - behind : 0));
      }
    }
  }
}

TEST_CASE("a backward waits for its gradient, which comes once and for what was sent on", "[schedules]") {
  StageProgressSetup setup;
  setup.has_downstream = true;
  setup.checkpoints = {1, WindowIndex{1}};
  setup.micro_batches = [](WindowIndex) { return std::uint64_t{2}; };
  setup.schedule = window_schedule(TrainingSchedule::one_f_one_b, StageIndex{1}, 3);
  setup.gradients_return = true;
  setup.output_bytes_max = 40;
  StageProgressCore core(setup);
  const BatchPosition first{WindowIndex{1}, 0};
  const BatchPosition second{WindowIndex{1}, 1};
  core.allowance({first, 0, 0, 4, 40, WindowIndex{0}});
  CHECK_THROWS_AS(core.gradient_received(first), std::logic_error);
  core.asked();
  core.received(first, 1);
  core.forwarded(32);
  core.asked();
  core.received(second, 1);
  CHECK(core.next() ==
        StageAction{StageAction::Kind::wait_output, second, false});  // until the first is sent
  core.allowance({second, 1, 32, 4, 72, WindowIndex{0}});
  CHECK(core.next() == StageAction{StageAction::Kind::forward, second, true});
  core.forwarded(32);
  CHECK(core.next() == StageAction{StageAction::Kind::wait_input, first, false});
  CHECK_THROWS_AS(core.trained(), std::logic_error);
  core.gradient_received(second);
  CHECK(core.next() == StageAction{StageAction::Kind::wait_input, first, false});
  core.gradient_received(first);
  CHECK(core.next() == StageAction{StageAction::Kind::backward, first, false});
  CHECK_THROWS_AS(core.gradient_received(first), std::logic_error);
  core.trained();
  CHECK(core.next() == StageAction{StageAction::Kind::backward, second, false});
}

TEST_CASE("an output that is larger than its buffer is blocked, and one that waits for room is not",
          "[schedules]") {
  StageProgressSetup setup;
  setup.has_downstream = true;
  setup.checkpoints = {1, WindowIndex{1}};
  setup.micro_batches = [](WindowIndex) { return std::uint64_t{2}; };
  setup.schedule = window_schedule(TrainingSchedule::gpipe, StageIndex{0}, 2);
  setup.gradients_return = true;
  setup.output_bytes_max = 40;
  StageProgressCore core(setup);
  core.allowance({{WindowIndex{1}, 0}, 0, 0, 4, 40, WindowIndex{0}});
  core.asked();
  core.received({WindowIndex{1}, 0}, 1);
  core.forwarded(32);
  core.asked();
  core.received({WindowIndex{1}, 1}, 2);
  CHECK(core.next().kind == StageAction::Kind::blocked);
}
