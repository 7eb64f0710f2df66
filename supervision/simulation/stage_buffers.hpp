#pragma once
/// The buffers of a simulated stage: the cores, and the words that their actors exchange.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/core/hidden_state_buffer_core.hpp"
#include "actors/core/outbound_buffer_core.hpp"
#include "supervision/simulation/cluster.hpp"

namespace zerolock::simulation {

class Stage;

/// An actor of a stage: words come one after another, in the order in which they were said.
class Child {
 public:
  Child(Cluster& cluster, Machine& machine) : cluster_(cluster), machine_(machine) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void tell(std::function<void()> word) {
    cluster_.timeline.along(mailbox_, cluster_.jitter(cluster_.scenario.message), machine_.host, life_,
                            std::move(word));
  }
  /// Nothing more happens to it.
  void end() { life_.reset(); }
  [[nodiscard]] bool alive() const { return life_ != nullptr; }

 protected:
  Cluster& cluster_;
  Machine& machine_;
  Life life_ = new_life();

 private:
  Lane mailbox_;
};

class InboundActor : public Child {
 public:
  InboundActor(Cluster& cluster, Machine& machine, Stage& stage, HiddenStateBufferSetup setup)
      : Child(cluster, machine), stage_(stage), setup_(std::move(setup)) {}

  void connect(std::uint64_t session);
  void entry(std::uint64_t session, const Entry& entry);
  void blocked(const BatchPosition& position, std::uint64_t bytes);
  void take(Incarnation life);
  /// Answered behind all entries that were given before.
  void tell_what_waits(Incarnation life);
  void rewind(const WindowsDone& committed, Incarnation life);
  void durable(WindowIndex window);

 private:
  void open();
  void serve();
  void announce_credit();
  void fail_if_blocked();

  Stage& stage_;
  HiddenStateBufferSetup setup_;
  std::optional<HiddenStateBufferCore> core_;
  std::uint64_t session_ = 0;  // 0: not connected
  EntryCredit announced_;
  Incarnation worker_;
  std::uint64_t demanded_ = 0;  // entries that the worker has asked for
  std::optional<std::pair<BatchPosition, std::uint64_t>> blocked_;
};

class OutboundActor : public Child {
 public:
  OutboundActor(Cluster& cluster, Machine& machine, Stage& stage, OutboundBufferSetup setup)
      : Child(cluster, machine), stage_(stage), core_(std::move(setup)) {}

  void hello(std::uint64_t session, const BatchPosition& first_lacking);
  void credit(std::uint64_t session, const EntryCredit& credit);
  void put(const Entry& entry);
  void attach();
  void line(WindowIndex line);
  /// The stage is told what the downstream lacks, once that is known.
  void ask(std::uint64_t attempt);

 private:
  void push();
  void tell_worker();

  Stage& stage_;
  OutboundBufferCore core_;
  BatchPosition born_;  // the first entry that it was ever to hold
  std::uint64_t session_ = 0;
  bool attached_ = false;
  std::optional<BatchPosition> blocked_;
  std::optional<std::uint64_t> asked_;
};

}  // namespace zerolock::simulation
