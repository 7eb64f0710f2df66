#include "actors/journal_keeper.hpp"

#include "actors/failure.hpp"

namespace zerolock {
namespace {

class JournalKeeper final : public JournalActor::base {
 public:
  JournalKeeper(caf::actor_config& config, caf::actor_addr parent, std::unique_ptr<Journal> journal)
      : JournalActor::base(config), journal_(std::move(journal)) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "journal"; }

  behavior_type make_behavior() override {
    return {[this](append_atom, const JournalRecord& record) -> std::uint64_t {
              journal_->append(record);
              return ++kept_;
            },
            [this](records_atom) { return journal_->records(); }};
  }

 private:
  std::unique_ptr<Journal> journal_;
  std::uint64_t kept_ = 0;
};

}  // namespace

JournalActor spawn_journal_keeper(caf::local_actor& parent, std::unique_ptr<Journal> journal) {
  return parent.spawn<JournalKeeper, caf::monitored>(parent.address(), std::move(journal));
}

}  // namespace zerolock
