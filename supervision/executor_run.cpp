#include "supervision/executor_run.hpp"

#include <chrono>
#include <utility>

#include "actors/deadlines.hpp"
#include "actors/failure.hpp"
#include "supervision/actor_system.hpp"
#include "supervision/executor_root.hpp"
#include "supervision/work_folder.hpp"

namespace zerolock {
namespace {

/// Milliseconds of the wall clock: a later start of the same executor has a higher one.
std::uint64_t new_placement() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::unique_ptr<Listener> listen_for_downstreams(const ExecutorPlan& plan, Network& network,
                                                 const std::shared_ptr<BoundaryEntrance>& entrance) {
  ListenEvents events;
  events.hello = [entrance](const Hello& hello) -> HelloAnswer {
    if (hello.purpose != ConnectionPurpose::boundary) return Refusal{"an executor only lets boundaries in"};
    return entrance->answer(hello);
  };
  events.accepted = [entrance](std::shared_ptr<Connection> connection, const Hello& hello) {
    entrance->accepted(connection, hello);
  };
  events.rejected = plan.note;
  return network.listen(
      listen_options(plan.listen, plan.security, plan.token, {NodeRole::executor, plan.name}, ""),
      std::move(events));
}

ExecutorEnd await_end(caf::scoped_actor& self, const ExecutorRootActor& root,
                      const std::function<bool()>& stop_requested) {
  ExecutorEnd end;
  bool over = false;
  bool stop_sent = false;
  auto last_sample = std::chrono::steady_clock::now();
  while (!over) {
    self->receive(
        [&](ended_atom, const ExecutorEnd& said) {
          end = said;
          over = true;
        },
        [&](const caf::down_msg& down) {
          end.failure = "the executor failed because " + cause_of(down.reason);
          over = true;
        },
        caf::after(deadlines.stop_poll) >>
            [&] {
              if (std::chrono::steady_clock::now() - last_sample > deadlines.beat_interval) {
                process_bytes_peak();
                last_sample = std::chrono::steady_clock::now();
              }
              if (stop_sent || !stop_requested || !stop_requested()) return;
              stop_sent = true;
              self->send(root, stop_atom::value);
            });
  }
  return end;
}

}  // namespace

ExecutorEnd run_executor(const ExecutorPlan& given) {
  ExecutorPlan plan = given;
  plan.card.name = plan.name;
  plan.card.version = program_version;
  plan.card.placement = new_placement();
  const WorkFolder folder(plan.work);
  const auto accounts = std::make_shared<std::vector<std::unique_ptr<MemoryAccount>>>();
  const auto network = std::make_shared<Network>();
  const auto entrance = std::make_shared<BoundaryEntrance>();
  const std::unique_ptr<Listener> listener = listen_for_downstreams(plan, *network, entrance);
  plan.card.data_address =
      Address{plan.public_host.value_or(listener->address().host), listener->address().port}.text();
  ActorSystemConfig config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  ExecutorRootSetup setup{plan, network, entrance, accounts, caf::actor_cast<caf::actor>(self)};
  const auto hangs = setup.hangs;
  auto root = spawn_executor_root(*self.ptr(), std::move(setup));
  const ExecutorEnd end = await_end(self, root, plan.stop_requested);
  root = nullptr;
  if (*hangs && plan.abandon) plan.abandon(end);
  self->await_all_other_actors_done();
  return end;
}

}  // namespace zerolock
