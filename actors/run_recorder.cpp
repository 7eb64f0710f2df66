#include "actors/run_recorder.hpp"

#include <map>
#include <set>

#include "actors/failure.hpp"

namespace zerolock {
namespace {

class RunRecorder final : public RunRecorderActor::base {
 public:
  RunRecorder(caf::actor_config& config, caf::actor_addr parent, RecorderSinks sinks)
      : RunRecorderActor::base(config), sinks_(std::move(sinks)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "run recorder"; }

  behavior_type make_behavior() override {
    return {[this](report_atom, const WindowReport& report) { on_report(report); },
            [this](calibrated_atom, StageIndex stage) {
              if (calibrated_.insert(stage).second) sinks_.calibrated(stage);
            },
            [this](spans_atom, const std::vector<TraceSpan>& spans) {
              for (const TraceSpan& span : spans) sinks_.span(span);
            },
            [this](restart_atom, const StageRestart& restart) { sinks_.restarted(restart); }};
  }

 private:
  void on_report(const WindowReport& report) {
    WindowIndex& last = reported_[report.stage];
    if (report.window <= last) return;  // a replay: the numbers are the same
    last = report.window;
    sinks_.window_committed(report);
  }

  RecorderSinks sinks_;
  std::map<StageIndex, WindowIndex> reported_;
  std::set<StageIndex> calibrated_;
};

}  // namespace

RunRecorderActor spawn_run_recorder(caf::local_actor& parent, RecorderSinks sinks) {
  return parent.spawn<RunRecorder, caf::monitored>(parent.address(), std::move(sinks));
}

}  // namespace zerolock
