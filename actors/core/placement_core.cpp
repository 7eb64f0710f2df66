#include "actors/core/placement_core.hpp"

#include <algorithm>
#include <utility>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

std::string seconds_text(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string stage_text(StageIndex stage) {
  return "stage " + std::to_string(stage.value);
}

}  // namespace

std::string to_string(Incarnation incarnation) {
  const std::uint64_t placement = (incarnation.value >> incarnation_lives_bits) + 1;
  const std::uint64_t life = incarnation.value & ((std::uint64_t{1} << incarnation_lives_bits) - 1);
  return placement == 1 ? std::to_string(life) : std::to_string(placement) + "." + std::to_string(life);
}

PlacementCore::PlacementCore(const PlacementSetup& setup) : setup_(setup), stages_(setup.stages) {
  ZEROLOCK_INVARIANT(setup.stages > 0, "a run has stages");
}

void PlacementCore::remember(const std::string& node, const PlacedStage& placed,
                             std::chrono::nanoseconds now) {
  Stage& stage = stages_.at(placed.stage.value);
  ZEROLOCK_INVARIANT(placed.placement > stage.placement, "placements of a stage rise");
  stage.placement = placed.placement;
  stage.node = node;
  executors_[node] = {now, "it has not come back to the coordinator, which was started again"};
  placed_ = true;
}

PlacementOrders PlacementCore::place(
    const std::vector<std::pair<std::string, std::vector<StageIndex>>>& stages, std::chrono::nanoseconds) {
  ZEROLOCK_INVARIANT(!std::exchange(placed_, true), "stages are placed for the first time once");
  PlacementOrders orders;
  for (const auto& [node, own] : stages) {
    if (own.empty()) continue;
    ZEROLOCK_INVARIANT(executors_.contains(node), "stages are placed on members");
    PlacementOrders::Assign assign{node, {}};
    for (const StageIndex index : own) {
      Stage& stage = stages_.at(index.value);
      ZEROLOCK_INVARIANT(stage.placement.value == 0, "each stage is placed once");
      stage.placement = Placement{1};
      stage.node = node;
      assign.stages.push_back({index, stage.placement});
    }
    orders.assign.push_back(std::move(assign));
  }
  return orders;
}

PlacementOrders PlacementCore::joined(const std::string& node, std::chrono::nanoseconds now) {
  PlacementOrders orders;
  if (paused_) return orders;
  lose_stages_of(node, "executor " + node + " has started anew", now, orders);
  executors_[node] = {};
  fill_vacancies(orders);
  return orders;
}

PlacementOrders PlacementCore::attached(const std::string& node, const std::vector<PlacedStage>& running,
                                        std::chrono::nanoseconds now) {
  PlacementOrders orders;
  if (paused_) return orders;
  if (running == stages_of(node)) {
    executors_[node] = {};
    fill_vacancies(orders);
    return orders;
  }
  // What it runs is not what it should: nothing of it counts, and it joins again with nothing.
  lose_stages_of(node, "executor " + node + " runs something else", now, orders);
  executors_.erase(node);
  orders.dismiss.push_back(node);
  fill_vacancies(orders);
  return orders;
}

PlacementOrders PlacementCore::away(const std::string& node, const std::string& cause,
                                    std::chrono::nanoseconds now) {
  if (paused_) return {};
  if (!has_stages(node)) {
    executors_.erase(node);
    return {};
  }
  Executor& executor = executors_[node];
  if (!executor.away_since) executor = {now, cause};
  return {};
}

PlacementOrders PlacementCore::gone(const std::string& node, const std::string& cause,
                                    std::chrono::nanoseconds now) {
  PlacementOrders orders;
  if (paused_) return orders;
  executors_.erase(node);
  lose_stages_of(node, cause, now, orders);
  fill_vacancies(orders);
  return orders;
}

PlacementOrders PlacementCore::tick(std::chrono::nanoseconds now) {
  PlacementOrders orders;
  if (paused_) return orders;
  std::vector<std::pair<std::string, std::string>> lost;
  for (const auto& [node, executor] : executors_) {
    if (!executor.away_since || now - *executor.away_since < setup_.absence_max) continue;
    lost.emplace_back(node, "executor " + node + " was out of reach for " + seconds_text(setup_.absence_max) +
                                ": " + executor.cause);
  }
  for (const auto& [node, cause] : lost) {
    executors_.erase(node);
    lose_stages_of(node, cause, now, orders);
    if (!paused_) orders.dismiss.push_back(node);
  }
  fill_vacancies(orders);
  for (std::size_t i = 0; i < stages_.size() && !paused_; ++i) {
    const Stage& stage = stages_[i];
    if (stage.vacancy == 0 || now - stage.vacant_since < setup_.vacancy_max) continue;
    pause(stage_text(StageIndex{i}) + " has no executor because " + stage.cause +
              "; no spare one joined within " + seconds_text(setup_.vacancy_max),
          orders);
  }
  return orders;
}

std::optional<std::chrono::nanoseconds> PlacementCore::next_deadline() const {
  std::optional<std::chrono::nanoseconds> next;
  if (paused_) return next;
  const auto consider = [&next](std::chrono::nanoseconds time) {
    next = next ? std::min(*next, time) : time;
  };
  for (const auto& [node, executor] : executors_) {
    if (executor.away_since) consider(*executor.away_since + setup_.absence_max);
  }
  for (const Stage& stage : stages_) {
    if (stage.vacancy != 0) consider(stage.vacant_since + setup_.vacancy_max);
  }
  return next;
}

std::optional<std::string> PlacementCore::node_of(StageIndex stage) const {
  const std::string& node = stages_.at(stage.value).node;
  return node.empty() ? std::nullopt : std::optional(node);
}

std::vector<PlacedStage> PlacementCore::stages_of(const std::string& node) const {
  std::vector<PlacedStage> own;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].node == node) own.push_back({StageIndex{i}, stages_[i].placement});
  }
  return own;
}

std::vector<std::string> PlacementCore::spares() const {
  std::vector<std::string> names;
  for (const auto& [node, executor] : executors_) {
    if (!executor.away_since && !has_stages(node)) names.push_back(node);
  }
  return names;
}

bool PlacementCore::has_stages(const std::string& node) const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [&node](const Stage& stage) { return stage.node == node; });
}

void PlacementCore::lose_stages_of(const std::string& node, const std::string& cause,
                                   std::chrono::nanoseconds now, PlacementOrders& orders) {
  if (!has_stages(node)) return;
  ++vacancies_;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    if (stage.node != node) continue;
    stage.node.clear();
    stage.vacancy = vacancies_;
    stage.vacant_since = now;
    stage.cause = cause;
    stage.losses.push_back(now);
    std::erase_if(stage.losses, [&](std::chrono::nanoseconds loss) { return now - loss > setup_.period; });
    if (stage.losses.size() > setup_.losses_max) {
      pause(stage_text(StageIndex{i}) + " lost its executor " + std::to_string(stage.losses.size()) +
                " times within " + seconds_text(setup_.period) + ", the last time because " + cause,
            orders);
    }
  }
}

/// The longest vacant first; the stages of one loss stay together.
void PlacementCore::fill_vacancies(PlacementOrders& orders) {
  if (paused_) return;
  for (const std::string& node : spares()) {
    std::uint64_t oldest = 0;
    for (const Stage& stage : stages_) {
      if (stage.vacancy != 0 && (oldest == 0 || stage.vacancy < oldest)) oldest = stage.vacancy;
    }
    if (oldest == 0) return;
    PlacementOrders::Assign assign{node, {}};
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      if (stage.vacancy != oldest) continue;
      stage.vacancy = 0;
      stage.node = node;
      stage.placement = stage.placement.next();
      assign.stages.push_back({StageIndex{i}, stage.placement});
    }
    orders.assign.push_back(std::move(assign));
  }
}

void PlacementCore::pause(const std::string& cause, PlacementOrders& orders) {
  if (std::exchange(paused_, true)) return;
  orders = {};
  orders.pause = cause;
}

}  // namespace zerolock
