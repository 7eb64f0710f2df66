#include "actors/batch_source.hpp"

#include <optional>

#include "actors/core/batch_source_core.hpp"
#include "actors/failure.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

class BatchSource final : public BatchSourceActor::base {
 public:
  BatchSource(caf::actor_config& config, caf::actor_addr parent,
              std::shared_ptr<const MicroBatchProvider> batches, MemoryAccount* account)
      : BatchSourceActor::base(config),
        core_([batches](WindowIndex window) { return batches->micro_batches(window); }),
        batches_(std::move(batches)),
        account_(account) {
    contain_failures(this);
    live_under(this, parent);
  }

  [[nodiscard]] const char* name() const override { return "batch source"; }

  behavior_type make_behavior() override {
    return {[this](hello_atom, const BoundaryHello& hello, const EntryReceiverActor& receiver) {
              if (hello.session < session_) return;
              session_ = hello.session;
              receiver_ = receiver;
              made_.reset();
              core_.resume(hello.first_lacking);
            },
            [this](credit_atom, std::uint64_t session, const EntryCredit& credit) {
              if (session != session_) return;
              core_.credit(credit);
              feed();
            },
            [this](grant_atom, WindowIndex window) {
              core_.grant(window);
              feed();
            }};
  }

  void on_exit() override { receiver_ = nullptr; }

 private:
  void feed() {
    const MemoryScope scope(*account_, MemoryComponent::buffers);
    while (const auto position = core_.next()) {
      if (!made_) made_ = batches_->make(*position);
      ZEROLOCK_INVARIANT(made_->position == *position, "the provider makes what was asked for");
      if (!core_.sent(made_->bytes())) {
        send(receiver_, blocked_atom::value, *position, std::uint64_t{made_->bytes()});
        return;
      }
      send(receiver_, entry_atom::value, session_, std::move(*made_));
      made_.reset();
    }
  }

  BatchSourceCore core_;
  std::shared_ptr<const MicroBatchProvider> batches_;
  MemoryAccount* account_;
  EntryReceiverActor receiver_;
  std::uint64_t session_ = 0;
  std::optional<Entry> made_;  // of the next position, when it was made and lacks credit
};

}  // namespace

BatchSourceActor spawn_batch_source(caf::local_actor& parent,
                                    std::shared_ptr<const MicroBatchProvider> batches,
                                    MemoryAccount& account) {
  return parent.spawn<BatchSource, caf::monitored>(parent.address(), std::move(batches), &account);
}

}  // namespace zerolock
