#include "actors/core/journal.hpp"

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

}  // namespace zerolock
