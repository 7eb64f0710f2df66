#pragma once
/// Which executor runs which stages, and what becomes of stages whose executor is lost: the coordinator's
/// half of recovery.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// Counts the placements of a stage on executors, from 1. The highest one is the stage; all others are told
/// to drop it, whenever they are heard of again.
using Placement = Index<struct PlacementTag>;

inline constexpr int incarnation_lives_bits = 20;

/// The incarnations of a placement's workers lie above all those of earlier placements: the first worker of
/// the first placement has incarnation 1, as in a run that is never disturbed.
constexpr Incarnation incarnation_before(Placement placement) {
  return Incarnation{(placement.value - 1) << incarnation_lives_bits};
}

/// "3", the third life of the first placement; "2.1", the first of the second.
std::string to_string(Incarnation incarnation);

/// One stage on one executor.
struct PlacedStage {
  StageIndex stage;
  Placement placement;

  constexpr auto operator<=>(const PlacedStage&) const = default;
};

struct PlacementSetup {
  std::uint64_t stages = 1;
  /// An executor that has stages may be out of reach for so long before they are given to another one.
  std::chrono::nanoseconds absence_max{std::chrono::seconds(15)};
  /// Stages without an executor wait so long for one to join before the run pauses.
  std::chrono::nanoseconds vacancy_max{std::chrono::seconds(60)};
  /// Placements of one stage that may be lost within `period`; one more and the run pauses.
  std::uint64_t losses_max = 5;
  std::chrono::nanoseconds period{std::chrono::seconds(60)};
};

/// What is to be done after an event, in this order.
struct PlacementOrders {
  struct Assign {
    std::string node;
    std::vector<PlacedStage> stages;  // ascending

    bool operator==(const Assign&) const = default;
  };
  /// Executors that have to drop all they have and join again: others have their stages now.
  std::vector<std::string> dismiss;
  std::vector<Assign> assign;
  /// The run pauses: the chain of causes. Said once; nothing is ordered after it.
  std::optional<std::string> pause;

  bool operator==(const PlacementOrders&) const = default;
};

/// Plain state; times are values, counted from any fixed moment, and do not fall. Executors are named by
/// their nodes. An executor gets stages once in its life; one that has none is a spare. Stages that were lost
/// together are placed together.
class PlacementCore {
 public:
  explicit PlacementCore(const PlacementSetup& setup);

  /// From the journal of a coordinator that was here before, before any event: the stage was placed there.
  /// Its executor may still have it, and is waited for as one out of reach.
  void remember(const std::string& node, const PlacedStage& placed, std::chrono::nanoseconds now);
  /// The first placement of all stages on members that have none. Each stage once.
  PlacementOrders place(const std::vector<std::pair<std::string, std::vector<StageIndex>>>& stages,
                        std::chrono::nanoseconds now);

  /// A new life of this executor has joined, with nothing to run; what an earlier one had is lost.
  PlacementOrders joined(const std::string& node, std::chrono::nanoseconds now);
  /// An executor is here (again) and still runs these stages. One that runs anything that is no longer its
  /// own is dismissed.
  PlacementOrders attached(const std::string& node, const std::vector<PlacedStage>& running,
                           std::chrono::nanoseconds now);
  /// Its connection broke.
  PlacementOrders away(const std::string& node, const std::string& cause, std::chrono::nanoseconds now);
  /// This life of it will not be heard of again: it has left, failed, or its process is gone.
  PlacementOrders gone(const std::string& node, const std::string& cause, std::chrono::nanoseconds now);
  /// Time has passed: see next_deadline().
  PlacementOrders tick(std::chrono::nanoseconds now);
  /// When tick() has something to do; none: only events can change anything.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next_deadline() const;

  /// The executor that has the stage now, present or away.
  [[nodiscard]] std::optional<std::string> node_of(StageIndex stage) const;
  [[nodiscard]] Placement placement_of(StageIndex stage) const { return stages_.at(stage.value).placement; }
  [[nodiscard]] std::vector<PlacedStage> stages_of(const std::string& node) const;
  /// Members without stages, in order.
  [[nodiscard]] std::vector<std::string> spares() const;
  [[nodiscard]] bool paused() const { return paused_; }

 private:
  struct Stage {
    Placement placement;        // 0: never placed
    std::string node;           // empty: nowhere
    std::uint64_t vacancy = 0;  // stages with the same number were lost together
    std::chrono::nanoseconds vacant_since{0};
    std::string cause;                             // of the latest loss
    std::vector<std::chrono::nanoseconds> losses;  // within the period, oldest first
  };
  struct Executor {
    std::optional<std::chrono::nanoseconds> away_since;
    std::string cause;  // of being away
  };

  void lose_stages_of(const std::string& node, const std::string& cause, std::chrono::nanoseconds now,
                      PlacementOrders& orders);
  void fill_vacancies(PlacementOrders& orders);
  [[nodiscard]] bool has_stages(const std::string& node) const;
  void pause(const std::string& cause, PlacementOrders& orders);

  PlacementSetup setup_;
  std::vector<Stage> stages_;
  std::map<std::string, Executor> executors_;  // members; those remembered count as away
  std::uint64_t vacancies_ = 0;
  bool placed_ = false;  // the first placement is made
  bool paused_ = false;
};

}  // namespace zerolock
