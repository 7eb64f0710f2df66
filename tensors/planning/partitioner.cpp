#include "tensors/planning/partitioner.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::size_t no_parent = std::numeric_limits<std::size_t>::max();
constexpr std::size_t labels_max = 30'000'000;  // some 3 GB; real clusters need thousands

/// What is minimised, first things first. Each can only grow when a stage is added.
enum Criterion : std::size_t { excess_bytes, slowest, squares, criterion_count };
using Criteria = std::array<double, criterion_count>;

/// Executors that are alike but for their names.
struct Kind {
  PlanningExecutor properties;
  std::vector<std::size_t> members;  // in the order of the list
};

bool at_least_as_good(const PlanningExecutor& a, const PlanningExecutor& b) {
  const auto memory = [](const PlanningExecutor& e) {
    return e.memory_bytes == 0 ? std::numeric_limits<std::int64_t>::max() : e.memory_bytes;
  };
  const auto link = [](const PlanningExecutor& e) {
    return e.link_bytes_per_second == 0 ? HUGE_VAL : e.link_bytes_per_second;
  };
  return a.cores >= b.cores && a.operations_per_second >= b.operations_per_second && memory(a) >= memory(b) &&
         link(a) >= link(b);
}

bool alike(const PlanningExecutor& a, const PlanningExecutor& b) {
  return at_least_as_good(a, b) && at_least_as_good(b, a);
}

/// All executors that an optimum may need. A run has at most `stages` of them, so that whoever has that many
/// betters can always be replaced by one that is still free.
std::vector<Kind> useful_kinds(const std::vector<PlanningExecutor>& executors, std::uint64_t stages) {
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < executors.size(); ++i) {
    std::uint64_t betters = 0;
    for (std::size_t j = 0; j < executors.size(); ++j) {
      const bool first = j < i || !alike(executors[i], executors[j]);
      if (j != i && first && at_least_as_good(executors[j], executors[i])) ++betters;
    }
    if (betters >= stages) continue;
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const Kind& kind) { return alike(kind.properties, executors[i]); });
    if (same == kinds.end()) {
      kinds.push_back({executors[i], {i}});
    } else {
      same->members.push_back(i);
    }
  }
  return kinds;
}

/// Seconds of a stage whose executor gives each of its stages an equal share of its cores.
double shared(double seconds, std::uint64_t hosted, const PlanningExecutor& executor) {
  if (hosted <= executor.cores) return seconds;
  return seconds * static_cast<double>(hosted) / static_cast<double>(executor.cores);
}

/// The costs of every stage and range that a partition can have.
class CostTable {
 public:
  explicit CostTable(const PartitionTask& task) : task_(task), rows_(task.stages) {
    for (std::uint64_t k = 0; k < task.stages; ++k) {
      for (std::int64_t first = first_min(k); first <= first_max(k); ++first) {
        for (std::int64_t last = first + 1; last <= first_max(k + 1); ++last) {
          if (allowed(k, {first, last})) {
            rows_[k].emplace(LayerRange{first, last}, task.cost(StageIndex{k}, LayerRange{first, last}));
          }
        }
      }
    }
  }

  /// Calls work(range, cost) for every range of stage k that begins with layer `first`.
  template <class Work>
  void for_each(std::uint64_t k, std::int64_t first, const Work& work) const {
    const auto begin = rows_[k].lower_bound(LayerRange{first, first});
    for (auto at = begin; at != rows_[k].end() && at->first.first == first; ++at) work(at->first, at->second);
  }

  [[nodiscard]] const StageCost& of(std::uint64_t k, const LayerRange& range) const {
    return rows_[k].at(range);
  }

 private:
  /// Every stage has a layer, those before stage k and those from it on.
  [[nodiscard]] std::int64_t first_min(std::uint64_t k) const { return static_cast<std::int64_t>(k); }
  [[nodiscard]] std::int64_t first_max(std::uint64_t k) const {
    return task_.layers - static_cast<std::int64_t>(task_.stages - k);
  }
  [[nodiscard]] bool allowed(std::uint64_t k, const LayerRange& range) const {
    if (!task_.fixed.empty()) return range == task_.fixed[k];
    return (k > 0 || range.first == 0) && (k + 1 < task_.stages || range.last == task_.layers);
  }

  const PartitionTask& task_;
  std::vector<std::map<LayerRange, StageCost>> rows_;  // of each stage
};

/// The first so many stages placed: what the rest of a plan can depend on.
struct State {
  std::int64_t layers = 0;          // that they take
  std::size_t kind = 0;             // of the executor that hosts the last of them
  std::uint64_t hosted = 0;         // of them, by that executor
  std::vector<std::uint16_t> used;  // executors of each kind

  auto operator<=>(const State&) const = default;
};

/// One way to get to a state.
struct Label {
  Criteria criteria{};
  double run_slowest = 0;      // seconds of the slowest stage on the last executor
  std::int64_t run_bytes = 0;  // of all stages there
  std::size_t parent = no_parent;
  LayerRange range;  // of the last stage
  std::size_t kind = 0;
  std::uint64_t hosted = 1;  // stages on the last executor
};

/// Finds plans by dynamic programming over stages, layers and executors used; each state keeps the ways
/// to it that are not worse in everything that counts.
class Search {
 public:
  Search(const PartitionTask& task, const std::vector<Kind>& kinds, const CostTable& costs)
      : task_(task), kinds_(kinds), costs_(costs) {}

  /// The stages of a plan with the least of `criterion`, whose criteria before that are at most
  /// `bounds`; `bounds` gets the least.
  std::vector<Label> minimise(Criterion criterion, Criteria& bounds) {
    criterion_ = criterion;
    bounds_ = bounds;
    arena_.clear();
    std::map<State, std::vector<std::size_t>> states;
    State start;
    start.used.resize(kinds_.size());
    for (std::uint64_t k = 0; k < task_.stages; ++k) {
      std::map<State, std::vector<std::size_t>> next;
      if (k == 0) extend(start, no_parent, k, next);
      for (const auto& [state, labels] : states) {
        for (const std::size_t label : labels) extend(state, label, k, next);
      }
      states = std::move(next);
    }
    std::size_t best = no_parent;
    for (const auto& [state, labels] : states) {
      for (const std::size_t label : labels) {
        if (best == no_parent || arena_[label].criteria[criterion] < arena_[best].criteria[criterion]) {
          best = label;
        }
      }
    }
    ZEROLOCK_INVARIANT(best != no_parent, "what earlier searches found is there to be found again");
    bounds[criterion] = arena_[best].criteria[criterion];
    std::vector<Label> path;
    for (std::size_t at = best; at != no_parent; at = arena_[at].parent) path.push_back(arena_[at]);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  using States = std::map<State, std::vector<std::size_t>>;

  /// Adds stage k to a plan of the stages before it, in every way.
  void extend(const State& from, std::size_t parent, std::uint64_t k, States& next) {
    costs_.for_each(k, from.layers, [&](const LayerRange& range, const StageCost& cost) {
      if (parent != no_parent) add(from, parent, k, range, cost, from.kind, true, next);
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        if (from.used[kind] == kinds_[kind].members.size()) continue;
        add(from, parent, k, range, cost, kind, false, next);
      }
    });
  }

  void add(const State& from, std::size_t parent, std::uint64_t k, const LayerRange& range,
           const StageCost& cost, std::size_t kind, bool shares, States& next) {
    const Label label = extended(from, parent, range, cost, kind, shares);
    for (std::size_t c = 0; c < criterion_; ++c) {
      if (label.criteria[c] > bounds_[c]) return;
    }
    State to{range.last, kind, label.hosted, from.used};
    if (!shares) ++to.used[kind];
    std::vector<std::size_t>& known = next[to];
    const bool last = k + 1 == task_.stages;
    for (const std::size_t other : known) {
      if (no_worse(arena_[other], label, last)) return;
    }
    std::erase_if(known, [&](std::size_t other) { return no_worse(label, arena_[other], last); });
    if (arena_.size() >= labels_max) {
      throw InputError("executors",
                       "too many that differ for an exact plan; leave some out, or round their numbers");
    }
    known.push_back(arena_.size());
    arena_.push_back(label);
  }

  [[nodiscard]] Label extended(const State& from, std::size_t parent, const LayerRange& range,
                               const StageCost& cost, std::size_t kind, bool shares) const {
    const PlanningExecutor& host = kinds_[kind].properties;
    const double seconds = cost.operations / host.operations_per_second;
    Label label;
    if (parent != no_parent) label.criteria = arena_[parent].criteria;
    label.run_slowest = std::max(seconds, shares ? arena_[parent].run_slowest : 0);
    label.run_bytes = cost.memory_bytes + (shares ? arena_[parent].run_bytes : 0);
    label.parent = parent;
    label.range = range;
    label.kind = kind;
    label.hosted = shares ? from.hosted + 1 : 1;
    const auto raise = [&](Criterion c, double value) {
      label.criteria[c] = std::max(label.criteria[c], value);
    };
    if (host.memory_bytes > 0) {
      raise(excess_bytes, static_cast<double>(label.run_bytes - host.memory_bytes));
    }
    raise(slowest, shared(label.run_slowest, label.hosted, host));
    if (parent != no_parent && !shares) raise(slowest, crossing_seconds(from.kind, kind));
    label.criteria[squares] += seconds * seconds;
    return label;
  }

 public:
  /// Of an entry from an executor of one kind to one of another, or the same, kind.
  [[nodiscard]] double crossing_seconds(std::size_t from, std::size_t to) const {
    const double a = kinds_[from].properties.link_bytes_per_second;
    const double b = kinds_[to].properties.link_bytes_per_second;
    const double rate = a == 0 ? b : b == 0 ? a : std::min(a, b);
    return rate == 0 ? 0 : static_cast<double>(task_.entry_bytes) / rate;
  }

 private:
  /// Whether whatever can follow `b` can follow `a` just as well; both lead to the same state.
  [[nodiscard]] bool no_worse(const Label& a, const Label& b, bool last) const {
    if (a.criteria[criterion_] > b.criteria[criterion_]) return false;
    if (last) return true;
    const PlanningExecutor& host = kinds_[a.kind].properties;
    const bool memory_counts = host.memory_bytes > 0;
    const bool seconds_count = criterion_ >= slowest && host.cores < task_.stages;
    return (!memory_counts || a.run_bytes <= b.run_bytes) &&
           (!seconds_count || a.run_slowest <= b.run_slowest);
  }

  const PartitionTask& task_;
  const std::vector<Kind>& kinds_;
  const CostTable& costs_;
  Criterion criterion_ = excess_bytes;
  Criteria bounds_{};
  std::vector<Label> arena_;
};

void check(const PartitionTask& task) {
  if (task.executors.empty()) throw InputError("executors", "there are none to place stages on");
  if (task.stages < 1 || task.stages > static_cast<std::uint64_t>(std::max<std::int64_t>(task.layers, 0))) {
    throw InputError("stages", std::to_string(task.stages) + " asked for; the model's " +
                                   std::to_string(task.layers) + " layers allow 1 to " +
                                   std::to_string(task.layers));
  }
  ZEROLOCK_INVARIANT(task.fixed.empty() || task.fixed.size() == task.stages, "layers for each stage");
  for (const PlanningExecutor& executor : task.executors) {
    ZEROLOCK_INVARIANT(executor.cores > 0 && executor.operations_per_second > 0 &&
                           executor.memory_bytes >= 0 && executor.link_bytes_per_second >= 0,
                       executor.name);
  }
}

/// The plan that a search's path stands for: executors of a kind are taken in the order of the list.
StagePlan plan_of(const PartitionTask& task, const std::vector<Kind>& kinds, const CostTable& costs,
                  const Search& search, const std::vector<Label>& path) {
  StagePlan plan;
  std::vector<std::size_t> taken(kinds.size());
  std::vector<std::uint64_t> hosted(task.executors.size());
  std::vector<double> sums(task.executors.size());
  for (std::size_t k = 0; k < path.size(); ++k) {
    const Label& label = path[k];
    const Kind& kind = kinds[label.kind];
    if (label.hosted == 1) ++taken[label.kind];
    const StageCost& cost = costs.of(k, label.range);
    StagePlace place;
    place.layers = label.range;
    place.executor = kind.members[taken[label.kind] - 1];
    place.seconds = cost.operations / task.executors[place.executor].operations_per_second;
    place.memory_bytes = cost.memory_bytes;
    if (k > 0 && label.hosted == 1) {
      place.receive_seconds = search.crossing_seconds(path[k - 1].kind, label.kind);
    }
    ++hosted[place.executor];
    sums[place.executor] += place.seconds;
    plan.stages.push_back(place);
  }
  for (StagePlace& place : plan.stages) {
    const PlanningExecutor& host = task.executors[place.executor];
    place.shared_seconds = shared(place.seconds, hosted[place.executor], host);
    const double all = sums[place.executor] / static_cast<double>(host.cores);
    plan.period_seconds = std::max({plan.period_seconds, place.seconds, place.receive_seconds, all});
  }
  plan.slowest_seconds = path.back().criteria[slowest];
  return plan;
}

/// Names the executor that lacks most.
[[noreturn]] void refuse(const PartitionTask& task, const StagePlan& plan) {
  std::size_t worst = 0;
  std::int64_t worst_excess = -1;
  std::vector<std::int64_t> needed(task.executors.size());
  for (const StagePlace& place : plan.stages) needed[place.executor] += place.memory_bytes;
  for (std::size_t e = 0; e < needed.size(); ++e) {
    const std::int64_t limit = task.executors[e].memory_bytes;
    if (limit > 0 && needed[e] - limit > worst_excess) {
      worst = e;
      worst_excess = needed[e] - limit;
    }
  }
  std::string stages;
  std::size_t hosted = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const StagePlace& place = plan.stages[k];
    if (place.executor != worst) continue;
    ++hosted;
    stages += (stages.empty() ? "" : ", ") + std::to_string(k) + " (layers " +
              std::to_string(place.layers.first) + "-" + std::to_string(place.layers.last - 1) + ")";
  }
  const PlanningExecutor& executor = task.executors[worst];
  throw InputError("executor " + executor.name,
                   (hosted > 1 ? "stages " : "stage ") + stages + (hosted > 1 ? " need " : " needs ") +
                       bytes_text(needed[worst]) + ", " + bytes_text(worst_excess) + " more than its " +
                       bytes_text(executor.memory_bytes) + ", and no other partition lacks less");
}

}  // namespace

StagePlan best_plan(const PartitionTask& task) {
  check(task);
  const std::vector<Kind> kinds = useful_kinds(task.executors, task.stages);
  const CostTable costs(task);
  Search search(task, kinds, costs);
  Criteria bounds{};
  std::vector<Label> path = search.minimise(excess_bytes, bounds);
  if (bounds[excess_bytes] > 0) refuse(task, plan_of(task, kinds, costs, search, path));
  for (const Criterion criterion : {slowest, squares}) path = search.minimise(criterion, bounds);
  return plan_of(task, kinds, costs, search, path);
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 48> text{};
  const int decimals = unit > 0 && std::abs(value) < 10 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, units.at(unit));
  return text.data();
}

}  // namespace zerolock
