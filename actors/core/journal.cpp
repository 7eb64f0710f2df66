#include "actors/core/journal.hpp"

#include <algorithm>

namespace zerolock {
namespace {

class MemoryJournal final : public Journal {
 public:
  void append(const JournalRecord& record) override { records_.push_back(record); }
  [[nodiscard]] std::vector<JournalRecord> records() const override { return records_; }

 private:
  std::vector<JournalRecord> records_;
};

}  // namespace

std::unique_ptr<Journal> make_memory_journal() {
  return std::make_unique<MemoryJournal>();
}

std::optional<JournalState> replay(const std::vector<JournalRecord>& records) {
  using Kind = JournalRecord::Kind;
  std::optional<JournalState> state;
  for (const JournalRecord& record : records) {
    if (record.kind == Kind::run_started) {
      state.emplace();
      state->session = record.text;
      state->before_first = record.window;
    }
    if (!state) continue;
    switch (record.kind) {
      case Kind::run_started:
        break;
      case Kind::stage_placed:
        state->placed[record.stage] = {record.text, Placement{record.window.value}};
        break;
      case Kind::windows_granted:
        state->granted = std::max(state->granted, std::optional(record.window));
        break;
      case Kind::stage_durable: {
        WindowIndex& durable = state->durable.try_emplace(record.stage, record.window).first->second;
        durable = std::max(durable, record.window);
        break;
      }
      case Kind::run_ends_at:
        state->ends_at = record.window;
        break;
      case Kind::run_finished:
      case Kind::run_failed:
        state->over = true;
        break;
    }
  }
  return state;
}

}  // namespace zerolock
