#include "tensors/planning/partitioner.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <unordered_map>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::size_t no_parent = std::numeric_limits<std::size_t>::max();
constexpr std::size_t labels_max = 5'000'000;  // some 500 MB; real clusters need thousands
constexpr double used_max = 1e9;               // combinations of executors

/// What is minimised, first things first. Each can only grow when a stage is added.
enum Criterion : std::size_t { excess_bytes, slowest, squares, criterion_count };
using Criteria = std::array<double, criterion_count>;
constexpr Criteria unbounded = {HUGE_VAL, HUGE_VAL, HUGE_VAL};

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
  return a.stages_at_once >= b.stages_at_once && a.operations_per_second >= b.operations_per_second &&
         memory(a) >= memory(b) && link(a) >= link(b);
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
  if (hosted <= executor.stages_at_once) return seconds;
  return seconds * static_cast<double>(hosted) / static_cast<double>(executor.stages_at_once);
}

/// The costs of every stage and range that a partition can have.
class CostTable {
 public:
  using Row = std::vector<std::pair<LayerRange, StageCost>>;  // by rising last layer

  explicit CostTable(const PartitionTask& task) : rows_(task.stages) {
    const auto stages = static_cast<std::int64_t>(task.stages);
    for (std::int64_t k = 0; k < stages; ++k) {
      auto& rows = rows_[static_cast<std::size_t>(k)];
      rows.resize(static_cast<std::size_t>(task.layers));
      // Every stage has a layer, those before stage k and those behind it.
      for (std::int64_t first = k; first <= (k == 0 ? 0 : task.layers - (stages - k)); ++first) {
        const std::int64_t last_max = task.layers - (stages - k - 1);
        for (std::int64_t last = k + 1 == stages ? last_max : first + 1; last <= last_max; ++last) {
          const LayerRange range{first, last};
          if (!task.fixed.empty() && range != task.fixed[static_cast<std::size_t>(k)]) continue;
          rows[static_cast<std::size_t>(first)].emplace_back(
              range, task.cost(StageIndex{static_cast<std::uint64_t>(k)}, range));
        }
      }
    }
  }

  /// Of stage k, beginning with layer `first`.
  [[nodiscard]] const Row& from(std::uint64_t k, std::int64_t first) const {
    return rows_[k][static_cast<std::size_t>(first)];
  }

  [[nodiscard]] const StageCost& of(std::uint64_t k, const LayerRange& range) const {
    const Row& row = from(k, range.first);
    const auto found =
        std::find_if(row.begin(), row.end(), [&](const auto& entry) { return entry.first == range; });
    ZEROLOCK_INVARIANT(found != row.end(), "a plan's ranges are of the table");
    return found->second;
  }

  /// Calls work(range, cost) for each.
  template <class Work>
  void for_each(const Work& work) const {
    for (const auto& rows : rows_) {
      for (const Row& row : rows) {
        for (const auto& [range, cost] : row) work(range, cost);
      }
    }
  }

 private:
  std::vector<std::vector<Row>> rows_;  // of each stage and first layer
};

/// Between which seconds the slowest stage of any plan is.
std::pair<double, double> slowest_between(const PartitionTask& task, const std::vector<Kind>& kinds,
                                          const CostTable& costs) {
  double fewest = HUGE_VAL;
  double most = 0;
  // Some stage has at least its even share of the layers.
  const auto stages = static_cast<std::int64_t>(task.stages);
  const std::int64_t share = (task.layers + stages - 1) / stages;
  costs.for_each([&](const LayerRange& range, const StageCost& cost) {
    if (range.count() >= share) fewest = std::min(fewest, cost.operations);
    most = std::max(most, cost.operations);
  });
  double fastest_rate = 0;
  double slowest_rate = HUGE_VAL;
  double link = HUGE_VAL;
  for (const Kind& kind : kinds) {
    fastest_rate = std::max(fastest_rate, kind.properties.operations_per_second);
    slowest_rate = std::min(slowest_rate, kind.properties.operations_per_second);
    if (kind.properties.link_bytes_per_second > 0) {
      link = std::min(link, kind.properties.link_bytes_per_second);
    }
  }
  const std::int64_t most_bytes = std::max(task.entry_bytes, task.source_bytes);
  const double longest_receive = link == HUGE_VAL ? 0 : static_cast<double>(most_bytes) / link;
  const double all_on_one = most / slowest_rate * static_cast<double>(task.stages);
  constexpr double above_zero = 1e-9;
  return {std::max(fewest / fastest_rate, above_zero), std::max({all_on_one, longest_receive, above_zero})};
}

/// One way to place the first so many stages.
struct Label {
  Criteria criteria{};
  double run_slowest = 0;      // seconds of the slowest stage on the last executor
  std::int64_t run_bytes = 0;  // of all stages there
  std::size_t parent = no_parent;
  LayerRange range;  // of the last stage
  std::size_t kind = 0;
  std::uint64_t hosted = 1;  // stages on the last executor
  std::size_t used = 0;      // executors of each kind: digits of a mixed-radix number
};

/// Finds plans by dynamic programming over stages, layers and executors used; each state keeps the ways to it
/// that are not worse in everything that counts.
class Search {
 public:
  Search(const PartitionTask& task, const std::vector<Kind>& kinds, const CostTable& costs)
      : task_(task), kinds_(kinds), costs_(costs) {
    double states = 1;
    for (const Kind& kind : kinds_) {
      weights_.push_back(static_cast<std::size_t>(states));
      states *= static_cast<double>(kind.members.size() + 1);
      if (states > used_max) refuse_too_many();
    }
  }

  /// A plan with the least of `criterion` among those whose criteria are at most `bounds`, as the labels of
  /// its stages; none if there is no such plan.
  std::vector<Label> minimise(Criterion criterion, const Criteria& bounds) {
    criterion_ = criterion;
    bounds_ = bounds;
    arena_.clear();
    std::vector<std::size_t> labels;
    for (std::uint64_t k = 0; k < task_.stages; ++k) {
      last_ = k + 1 == task_.stages;
      states_.clear();
      if (k == 0) extend(nullptr, no_parent, k);
      for (const std::size_t label : labels) {
        const Label from = arena_[label];  // a copy: the arena grows
        extend(&from, label, k);
      }
      labels.clear();
      for (const auto& [state, known] : states_) labels.insert(labels.end(), known.begin(), known.end());
      std::sort(labels.begin(), labels.end());
    }
    return path_to(labels);
  }

  /// Of an entry from an executor of one kind to one of another, or the same, kind.
  [[nodiscard]] double crossing_seconds(std::size_t from, std::size_t to) const {
    const double a = kinds_[from].properties.link_bytes_per_second;
    const double b = kinds_[to].properties.link_bytes_per_second;
    const double rate = a == 0 ? b : b == 0 ? a : std::min(a, b);
    return rate == 0 ? 0 : static_cast<double>(task_.entry_bytes) / rate;
  }

  /// Of an entry from the batch source, whose own link is as fast as it needs to be.
  [[nodiscard]] double source_seconds(std::size_t to) const {
    const double rate = kinds_[to].properties.link_bytes_per_second;
    return rate == 0 ? 0 : static_cast<double>(task_.source_bytes) / rate;
  }

 private:
  /// Adds stage k to a way of placing the stages before it, on the same executor or on any that is free.
  void extend(const Label* from, std::size_t parent, std::uint64_t k) {
    const std::int64_t first = from == nullptr ? 0 : from->range.last;
    if (from != nullptr) extend_on(from, parent, k, first, from->kind, true);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const std::size_t used = from == nullptr ? 0 : from->used;
      const std::size_t taken = used / weights_[kind] % (kinds_[kind].members.size() + 1);
      if (taken < kinds_[kind].members.size()) extend_on(from, parent, k, first, kind, false);
    }
  }

  void extend_on(const Label* from, std::size_t parent, std::uint64_t k, std::int64_t first, std::size_t kind,
                 bool shares) {
    const double receive = from == nullptr ? source_seconds(kind)
                           : shares        ? 0
                                           : crossing_seconds(from->kind, kind);
    const PlanningExecutor& host = kinds_[kind].properties;
    if (receive > bounds_[slowest]) return;
    Label label;
    label.parent = parent;
    label.kind = kind;
    label.hosted = shares ? from->hosted + 1 : 1;
    label.used = (from == nullptr ? 0 : from->used) + (shares ? 0 : weights_[kind]);
    for (const auto& [range, cost] : costs_.from(k, first)) {
      const double seconds = cost.operations / host.operations_per_second;
      label.range = range;
      label.run_slowest = std::max(seconds, shares ? from->run_slowest : 0);
      label.run_bytes = cost.memory_bytes + (shares ? from->run_bytes : 0);
      label.criteria = from == nullptr ? Criteria{} : from->criteria;
      if (host.memory_bytes > 0) {
        raise(label, excess_bytes, static_cast<double>(label.run_bytes - host.memory_bytes));
      }
      raise(label, slowest, std::max(receive, shared(label.run_slowest, label.hosted, host)));
      label.criteria[squares] += seconds * seconds;
      if (!within_bounds(label)) return;  // longer ranges cost no less
      keep(label);
    }
  }

  static void raise(Label& label, Criterion criterion, double value) {
    label.criteria[criterion] = std::max(label.criteria[criterion], value);
  }

  [[nodiscard]] bool within_bounds(const Label& label) const {
    for (std::size_t c = 0; c < criterion_count; ++c) {
      if (label.criteria[c] > bounds_[c]) return false;
    }
    return true;
  }

  /// Unless a way to the same state is no worse; drops those that are no better.
  void keep(const Label& label) {
    const auto stages = static_cast<std::size_t>(task_.stages) + 1;
    const auto layers = static_cast<std::size_t>(task_.layers) + 1;
    const std::size_t hosted = hosted_counts(label.kind) ? static_cast<std::size_t>(label.hosted) : 0;
    const std::size_t state = ((label.used * kinds_.size() + label.kind) * stages + hosted) * layers +
                              static_cast<std::size_t>(label.range.last);
    std::vector<std::size_t>& known = states_[state];
    for (const std::size_t other : known) {
      if (no_worse(arena_[other], label)) return;
    }
    std::erase_if(known, [&](std::size_t other) { return no_worse(label, arena_[other]); });
    if (arena_.size() >= labels_max) refuse_too_many();
    known.push_back(arena_.size());
    arena_.push_back(label);
  }

  /// Whether a stage more on an executor of the kind may slow down those that are there.
  [[nodiscard]] bool hosted_counts(std::size_t kind) const {
    return !last_ && kinds_[kind].properties.stages_at_once < task_.stages;
  }

  /// Whether whatever can follow `b` can follow `a` just as well; both lead to the same state.
  [[nodiscard]] bool no_worse(const Label& a, const Label& b) const {
    if (a.criteria[criterion_] > b.criteria[criterion_]) return false;
    if (last_) return true;
    const bool memory_counts = kinds_[a.kind].properties.memory_bytes > 0;
    return (!memory_counts || a.run_bytes <= b.run_bytes) &&
           (!hosted_counts(a.kind) || a.run_slowest <= b.run_slowest);
  }

  [[nodiscard]] std::vector<Label> path_to(const std::vector<std::size_t>& complete) const {
    std::vector<Label> path;
    const auto best =
        std::min_element(complete.begin(), complete.end(), [this](std::size_t a, std::size_t b) {
          return arena_[a].criteria[criterion_] < arena_[b].criteria[criterion_];
        });
    if (best == complete.end()) return path;
    for (std::size_t at = *best; at != no_parent; at = arena_[at].parent) path.push_back(arena_[at]);
    std::reverse(path.begin(), path.end());
    return path;
  }

  [[noreturn]] static void refuse_too_many() {
    throw InputError("executors",
                     "too many that differ for an exact plan; leave some out, or round their numbers");
  }

  const PartitionTask& task_;
  const std::vector<Kind>& kinds_;
  const CostTable& costs_;
  std::vector<std::size_t> weights_;  // of each kind's digit in Label::used
  Criterion criterion_ = excess_bytes;
  Criteria bounds_{};
  bool last_ = false;  // the stage that is being added is the last one
  std::vector<Label> arena_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> states_;
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
    ZEROLOCK_INVARIANT(executor.stages_at_once > 0 && executor.operations_per_second > 0 &&
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
    PlannedPlace place;
    place.layers = label.range;
    place.executor = kind.members[taken[label.kind] - 1];
    place.seconds = cost.operations / task.executors[place.executor].operations_per_second;
    place.memory_bytes = cost.memory_bytes;
    if (k == 0) {
      place.receive_seconds = search.source_seconds(label.kind);
    } else if (label.hosted == 1) {
      place.receive_seconds = search.crossing_seconds(path[k - 1].kind, label.kind);
    }
    ++hosted[place.executor];
    sums[place.executor] += place.seconds;
    plan.stages.push_back(place);
  }
  for (PlannedPlace& place : plan.stages) {
    const PlanningExecutor& host = task.executors[place.executor];
    place.shared_seconds = shared(place.seconds, hosted[place.executor], host);
    const double all = sums[place.executor] / static_cast<double>(host.stages_at_once);
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
  for (const PlannedPlace& place : plan.stages) needed[place.executor] += place.memory_bytes;
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
    const PlannedPlace& place = plan.stages[k];
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

/// The least of the slowest stage and the plan that has it; none if nothing fits. Looks below a bound that
/// rises until there is a plan: most ways to begin are given up early then.
std::vector<Label> fastest(Search& search, double least, double most) {
  constexpr double rise = 1.1;
  Criteria bounds = unbounded;
  bounds[excess_bytes] = 0;
  bounds[slowest] = least;
  while (true) {
    std::vector<Label> path = search.minimise(slowest, bounds);
    if (!path.empty() || bounds[slowest] > most) return path;
    bounds[slowest] *= rise;
  }
}

}  // namespace

StagePlan best_plan(const PartitionTask& task) {
  check(task);
  const std::vector<Kind> kinds = useful_kinds(task.executors, task.stages);
  const CostTable costs(task);
  Search search(task, kinds, costs);
  const auto [least, most] = slowest_between(task, kinds, costs);
  std::vector<Label> path = fastest(search, least, most);
  if (path.empty()) {
    refuse(task, plan_of(task, kinds, costs, search, search.minimise(excess_bytes, unbounded)));
  }
  path = search.minimise(squares, {0, path.back().criteria[slowest], HUGE_VAL});
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
