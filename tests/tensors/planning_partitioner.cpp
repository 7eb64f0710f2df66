/// The partitioner against trying everything, on small tasks with numbers that add up without rounding.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "tensors/base/error.hpp"
#include "tensors/planning/partitioner.hpp"

namespace zerolock::test {
namespace {

using Costs = std::vector<std::vector<StageCost>>;  // [stage][layer]

/// What every plan is judged by, in this order: bytes beyond a limit, the slowest stage, and the sum of
/// squares.
using Judgement = std::array<double, 3>;

/// By the words of the documentation, not by the code's.
Judgement judge(const PartitionTask& task, const std::vector<LayerRange>& ranges,
                const std::vector<std::size_t>& hosts) {
  Judgement judgement{};
  for (std::size_t e = 0; e < task.executors.size(); ++e) {
    const PlanningExecutor& executor = task.executors[e];
    const auto hosted = static_cast<double>(std::count(hosts.begin(), hosts.end(), e));
    double bytes = 0;
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      if (hosts[k] != e) continue;
      const StageCost cost = task.cost(StageIndex{k}, ranges[k]);
      const double seconds = cost.operations / executor.operations_per_second;
      bytes += static_cast<double>(cost.memory_bytes);
      judgement[1] = std::max(judgement[1],
                              seconds * std::max(1.0, hosted / static_cast<double>(executor.stages_at_once)));
      judgement[2] += seconds * seconds;
    }
    if (executor.memory_bytes > 0) {
      judgement[0] = std::max(judgement[0], bytes - static_cast<double>(executor.memory_bytes));
    }
  }
  const double into_first = task.executors[hosts[0]].link_bytes_per_second;
  if (into_first > 0) {
    judgement[1] = std::max(judgement[1], static_cast<double>(task.source_bytes) / into_first);
  }
  for (std::size_t k = 1; k < hosts.size(); ++k) {
    if (hosts[k] == hosts[k - 1]) continue;
    for (const std::size_t end : {hosts[k - 1], hosts[k]}) {
      const double link = task.executors[end].link_bytes_per_second;
      if (link > 0) judgement[1] = std::max(judgement[1], static_cast<double>(task.entry_bytes) / link);
    }
  }
  return judgement;
}

bool in_runs(const std::vector<std::size_t>& hosts) {
  for (std::size_t k = 2; k < hosts.size(); ++k) {
    if (hosts[k] == hosts[k - 1]) continue;
    if (std::find(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(k - 1), hosts[k]) !=
        hosts.begin() + static_cast<std::ptrdiff_t>(k - 1)) {
      return false;
    }
  }
  return true;
}

template <class Work>
void for_each_partition(std::int64_t layers, std::uint64_t stages, std::vector<LayerRange>& ranges,
                        const Work& work) {
  const std::int64_t first = ranges.empty() ? 0 : ranges.back().last;
  if (ranges.size() + 1 == stages) {
    ranges.push_back({first, layers});
    work(ranges);
    ranges.pop_back();
    return;
  }
  const auto later = static_cast<std::int64_t>(stages - ranges.size()) - 1;
  for (std::int64_t last = first + 1; last + later <= layers; ++last) {
    ranges.push_back({first, last});
    for_each_partition(layers, stages, ranges, work);
    ranges.pop_back();
  }
}

Judgement best_of_all(const PartitionTask& task) {
  std::optional<Judgement> best;
  std::vector<LayerRange> ranges;
  for_each_partition(task.layers, task.stages, ranges, [&](const std::vector<LayerRange>& partition) {
    if (!task.fixed.empty() && partition != task.fixed) return;
    std::vector<std::size_t> hosts(task.stages, 0);
    for (bool more = true; more;) {
      if (in_runs(hosts)) {
        const Judgement judgement = judge(task, partition, hosts);
        if (!best || judgement < *best) best = judgement;
      }
      std::size_t digit = 0;
      while (digit < hosts.size() && ++hosts[digit] == task.executors.size()) hosts[digit++] = 0;
      more = digit < hosts.size();
    }
  });
  return *best;
}

/// Small whole numbers for layers and stages, powers of two for rates.
PartitionTask random_task(std::mt19937_64& random) {
  const auto pick = [&](std::uint64_t least, std::uint64_t most) {
    return static_cast<std::int64_t>(least + random() % (most - least + 1));
  };
  PartitionTask task;
  task.layers = pick(1, 7);
  task.stages =
      static_cast<std::uint64_t>(pick(1, static_cast<std::uint64_t>(std::min<std::int64_t>(task.layers, 4))));
  Costs costs(task.stages);
  for (auto& stage : costs) {
    const bool trained = pick(0, 3) > 0;
    for (std::int64_t l = 0; l < task.layers; ++l) {
      stage.push_back({static_cast<double>(pick(1, 8) * (trained ? 3 : 1)), pick(1, 8)});
    }
  }
  task.cost = [costs, readout = pick(0, 9)](StageIndex stage, const LayerRange& range) {
    StageCost sum{static_cast<double>(readout), readout};
    for (std::int64_t l = range.first; l < range.last; ++l) {
      const StageCost& layer = costs[stage.value][static_cast<std::size_t>(l)];
      sum.operations += layer.operations;
      sum.memory_bytes += layer.memory_bytes;
    }
    return sum;
  };
  task.entry_bytes = pick(1, 64);
  if (pick(0, 1) == 1) task.source_bytes = task.entry_bytes;
  for (std::int64_t e = pick(1, 4); e > 0; --e) {
    PlanningExecutor executor;
    executor.name = "device" + std::to_string(e);
    executor.stages_at_once = static_cast<std::uint64_t>(1) << pick(0, 2);
    executor.operations_per_second = static_cast<double>(1 << pick(0, 3));
    executor.memory_bytes = pick(0, 2) == 0 ? 0 : pick(10, 60);
    executor.link_bytes_per_second = pick(0, 1) == 0 ? 0 : static_cast<double>(1 << pick(0, 4));
    task.executors.push_back(executor);
  }
  if (pick(0, 3) == 0) {
    std::vector<LayerRange> ranges;
    for_each_partition(task.layers, task.stages, ranges, [&](const std::vector<LayerRange>& partition) {
      if (task.fixed.empty() || pick(0, 2) == 0) task.fixed = partition;
    });
  }
  return task;
}

void check_places(const PartitionTask& task, const StagePlan& plan) {
  REQUIRE(plan.stages.size() == task.stages);
  std::int64_t next = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlannedPlace& place = plan.stages[k];
    CHECK(place.layers.first == next);
    CHECK(place.layers.count() >= 1);
    next = place.layers.last;
    REQUIRE(place.executor < task.executors.size());
    const StageCost cost = task.cost(StageIndex{k}, place.layers);
    CHECK(place.memory_bytes == cost.memory_bytes);
    CHECK(place.seconds == cost.operations / task.executors[place.executor].operations_per_second);
  }
  CHECK(next == task.layers);
}

PartitionTask uniform_task(std::int64_t layers, std::uint64_t stages,
                           std::vector<PlanningExecutor> executors) {
  PartitionTask task;
  task.layers = layers;
  task.stages = stages;
  task.cost = [](StageIndex, const LayerRange& range) {
    return StageCost{static_cast<double>(range.count()), range.count() << 20};
  };
  task.entry_bytes = 100;
  task.executors = std::move(executors);
  return task;
}

std::vector<std::int64_t> counts(const StagePlan& plan) {
  std::vector<std::int64_t> layers;
  for (const PlannedPlace& place : plan.stages) layers.push_back(place.layers.count());
  return layers;
}

}  // namespace

TEST_CASE("no plan of a small task is better than the partitioner's") {
  int infeasible = 0;
  int shared = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    INFO("seed=" << seed);
    std::mt19937_64 random(seed);
    const PartitionTask task = random_task(random);
    const Judgement best = best_of_all(task);
    if (best[0] > 0) {
      ++infeasible;
      CHECK_THROWS_WITH(best_plan(task),
                        Catch::Contains(bytes_text(static_cast<std::int64_t>(best[0])) + " more than its"));
      continue;
    }
    const StagePlan plan = best_plan(task);
    check_places(task, plan);
    std::vector<LayerRange> ranges;
    std::vector<std::size_t> hosts;
    for (const PlannedPlace& place : plan.stages) {
      ranges.push_back(place.layers);
      hosts.push_back(place.executor);
    }
    for (std::size_t k = 1; k < hosts.size(); ++k) shared += hosts[k] == hosts[k - 1] ? 1 : 0;
    CHECK(in_runs(hosts));
    CHECK(judge(task, ranges, hosts) == best);
    CHECK(plan.slowest_seconds == best[1]);
    CHECK(plan.period_seconds <= plan.slowest_seconds);
  }
  CHECK(infeasible > 100);
  CHECK(shared > 100);
}

TEST_CASE("equal layers on equal executors are cut evenly, and the answer is always the same") {
  const std::vector<PlanningExecutor> three(3, {"device", 1, 1, 0, 0});
  CHECK(counts(best_plan(uniform_task(30, 3, three))) == std::vector<std::int64_t>{10, 10, 10});
  CHECK(counts(best_plan(uniform_task(31, 3, three))) == counts(best_plan(uniform_task(31, 3, three))));
  const StagePlan uneven = best_plan(uniform_task(31, 3, three));
  CHECK(uneven.period_seconds == 11);
  CHECK(counts(best_plan(uniform_task(22, 4, {{"host", 2, 1, 0, 0}}))).size() == 4);
}

TEST_CASE("stages that share cores are cut evenly, and their pace is that of the cores") {
  const StagePlan plan = best_plan(uniform_task(30, 3, {{"host", 2, 1, 0, 0}}));
  CHECK(counts(plan) == std::vector<std::int64_t>{10, 10, 10});
  CHECK(plan.stages[0].seconds == 10);
  CHECK(plan.stages[0].shared_seconds == 15);
  CHECK(plan.slowest_seconds == 15);
  CHECK(plan.period_seconds == 15);
  // Two devices of one core: four stages go two by two.
  const StagePlan pairs = best_plan(uniform_task(8, 4, {{"a", 1, 1, 0, 0}, {"b", 1, 1, 0, 0}}));
  CHECK(pairs.stages[0].executor == pairs.stages[1].executor);
  CHECK(pairs.stages[2].executor == pairs.stages[3].executor);
  CHECK(pairs.period_seconds == 4);
}

TEST_CASE("an executor three times as fast takes three times the layers") {
  const StagePlan plan = best_plan(uniform_task(24, 2, {{"slow", 1, 1, 0, 0}, {"fast", 1, 3, 0, 0}}));
  CHECK(plan.period_seconds == 6);
  for (const PlannedPlace& place : plan.stages) CHECK(place.layers.count() == (place.executor == 1 ? 18 : 6));
}

TEST_CASE("a slow link is avoided by sharing an executor, unless it is faster all the same") {
  auto task = uniform_task(8, 2, {{"a", 1, 1, 0, 10}, {"b", 1, 1, 0, 10}});
  StagePlan plan = best_plan(task);  // crossing takes 10 s, both stages on one executor 8 s
  CHECK(plan.stages[0].executor == plan.stages[1].executor);
  CHECK(plan.period_seconds == 8);
  task.entry_bytes = 50;
  plan = best_plan(task);
  CHECK(plan.stages[0].executor != plan.stages[1].executor);
  CHECK(plan.stages[1].receive_seconds == 5);
  CHECK(plan.period_seconds == 5);
}

TEST_CASE("what the source sends is received by a fast link, if it is hidden states") {
  auto task = uniform_task(8, 1, {{"a", 1, 2, 0, 1}, {"b", 1, 1, 0, 10}});
  CHECK(best_plan(task).stages[0].executor == 0);
  CHECK(best_plan(task).stages[0].receive_seconds == 0);
  task.source_bytes = 20;
  const StagePlan plan = best_plan(task);
  CHECK(plan.stages[0].executor == 1);
  CHECK(plan.stages[0].receive_seconds == 2);
  CHECK(plan.period_seconds == 8);
}

TEST_CASE("what does not fit is refused with the executor and what it lacks") {
  CHECK_THROWS_WITH(
      best_plan(uniform_task(9, 2, {{"phone", 1, 1, 3 << 20, 0}, {"laptop", 1, 1, 5 << 20, 0}})),
      Catch::Contains("needs") && Catch::Contains("1.0 MiB more than its") && Catch::Contains("executor "));
  CHECK_THROWS_WITH(best_plan(uniform_task(2, 3, {{"a", 1, 1, 0, 0}})), Catch::Contains("1 to 2"));
  CHECK_THROWS_AS(best_plan(uniform_task(2, 1, {})), InputError);
}

TEST_CASE("executors that cannot be needed do not slow the search down") {
  std::vector<PlanningExecutor> many;
  for (int e = 0; e < 60; ++e) {
    many.push_back({"device" + std::to_string(e), 1, 1.0 + 0.01 * e, (8 + e) << 20, 1e6 + e});
  }
  const StagePlan plan = best_plan(uniform_task(12, 3, many));
  CHECK(counts(plan) == std::vector<std::int64_t>{4, 4, 4});
  for (const PlannedPlace& place : plan.stages) CHECK(place.executor >= 57);
}

TEST_CASE("byte counts are said in the largest unit that leaves a number above one") {
  CHECK(bytes_text(17) == "17 bytes");
  CHECK(bytes_text(512 << 10) == "512 KiB");
  CHECK(bytes_text(3 << 19) == "1.5 MiB");
  CHECK(bytes_text(230LL << 20) == "230 MiB");
  CHECK(bytes_text(4LL << 30) == "4.0 GiB");
}

}  // namespace zerolock::test
