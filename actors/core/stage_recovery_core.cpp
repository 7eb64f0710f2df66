#include "actors/core/stage_recovery_core.hpp"

#include <algorithm>
#include <limits>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr WindowIndex any_window{std::numeric_limits<std::uint64_t>::max()};

}  // namespace

StageRecoveryCore::StageRecoveryCore(const StageRecoverySetup& setup)
    : setup_(setup),
      initial_(setup.calibrates ? WindowsDone{} : WindowsDone{WindowIndex{setup.first_window.value - 1}}),
      line_(initial_),
      incarnation_(setup.incarnation_before) {
  ZEROLOCK_INVARIANT(setup.first_window.value > 0, "training windows count from 1");
}

RecoveryOrder StageRecoveryCore::begin() {
  ++attempt_;
  if (setup_.has_downstream) return order(RecoveryOrder::Kind::ask_downstream);
  return restore(any_window);
}

RecoveryOrder StageRecoveryCore::downstream_lacks(std::uint64_t attempt,
                                                  const BatchPosition& first_lacking) const {
  if (!current(attempt)) return {};
  // Outputs of the calibration can only be made again by a stage that is being calibrated.
  if (first_lacking.window.value == 0) return order(RecoveryOrder::Kind::begin_anew);
  return restore(WindowIndex{first_lacking.window.value - 1});
}

RecoveryOrder StageRecoveryCore::restore(WindowIndex at_most) const {
  if (disk_is_foreign()) return order(RecoveryOrder::Kind::begin_anew);
  return order(RecoveryOrder::Kind::restore, at_most);
}

RecoveryOrder StageRecoveryCore::restored(std::uint64_t attempt, WindowIndex window) const {
  if (!current(attempt)) return {};
  // What is found before this run has saved anything is of another run.
  if (setup_.fresh && !durable_) return order(RecoveryOrder::Kind::begin_anew);
  // The inputs after an older checkpoint are no longer here, but the previous stage still has them.
  if (released_ && window < *released_) return order(RecoveryOrder::Kind::restart_all);
  return order(RecoveryOrder::Kind::go_on, window);
}

RecoveryOrder StageRecoveryCore::none_good(std::uint64_t attempt) const {
  if (!current(attempt)) return {};
  const bool never_saved = !durable_ && line_ == initial_;
  return order(never_saved ? RecoveryOrder::Kind::begin_anew : RecoveryOrder::Kind::give_up);
}

void StageRecoveryCore::interrupted(bool buffers) {
  ++attempt_;
  if (buffers) released_.reset();
}

Incarnation StageRecoveryCore::began(const WindowsDone& committed) {
  incarnation_ = incarnation_.next();
  released_ = std::max(released_, committed);
  return incarnation_;
}

void StageRecoveryCore::durable(WindowIndex window) {
  durable_ = std::max(durable_, WindowsDone{window});
  released_ = std::max(released_, WindowsDone{window});
}

void StageRecoveryCore::line(WindowIndex line) {
  line_ = std::max(line_, WindowsDone{line});
}

}  // namespace zerolock
