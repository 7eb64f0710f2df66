/// What a run's status holds as the run goes on, and how it reaches those who ask.

#include <ATen/ATen.h>

#include <chrono>
#include <string>

#include "supervision/status_board.hpp"
#include "supervision/status_client.hpp"
#include "supervision/status_frames.hpp"
#include "supervision/status_server.hpp"
#include "tensors/base/error.hpp"

#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

using namespace std::chrono_literals;

/// A board of two stages whose clock stands still until it is told otherwise.
struct HeldBoard {
  StatusBoard::Clock::time_point now{};
  StatusBoard board{"a-run", {{0, 2}, {2, 5}}, WindowIndex{4}, 2, [this] { return now; }};

  void join(const std::string& name) {
    ExecutorCard card;
    card.name = name;
    card.cores = 8;
    card.memory_bytes = name == "b" ? 1024 : 0;
    card.data_address = "127.0.0.1:7401";
    card.gigaflops = name == "b" ? 640.5 : 0;
    board.joined(card);
  }
  void train(std::uint64_t stage, std::uint64_t window, double loss) {
    WindowReport report;
    report.stage = StageIndex{stage};
    report.window = WindowIndex{window};
    report.loss.task_loss = loss;
    report.loss.examples = 16;
    board.window_committed(report);
  }
};

std::vector<std::string> states(const RunStatus& status) {
  std::vector<std::string> texts;
  for (const ExecutorStatus& each : status.executors)
    texts.push_back(each.name + " " + to_string(each.state));
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("a run that waits has stages without executors", "[status]") {
  HeldBoard held;
  held.now += 3s;
  const RunStatus status = held.board.status();
  CHECK(to_json(status).dump() ==
        R"({"run":"a-run","phase":"waiting","seconds":3.0,"windows_done":0,"windows_last":4,"examples":0,)"
        R"("examples_per_second":0.0,"executors_wanted":2,"stages":[)"
        R"({"stage":0,"executor":null,"layers":[0,1],"committed_window":0,"durable_window":0,)"
        R"("task_loss":null,"restarts":0,"incarnation":1,"queues":null},)"
        R"({"stage":1,"executor":null,"layers":[2,4],"committed_window":0,"durable_window":0,)"
        R"("task_loss":null,"restarts":0,"incarnation":1,"queues":null}],"executors":[]})");
}

TEST_CASE("executors are joined, running, lost and spare", "[status]") {
  HeldBoard held;
  held.join("b");
  held.join("a");
  held.join("c");
  CHECK(states(held.board.status()) == Texts{"a joined", "b joined", "c joined"});
  held.board.assigned("a", {StageIndex{0}});
  held.board.assigned("b", {StageIndex{1}});
  held.board.assigned("c", {});
  CHECK(states(held.board.status()) == Texts{"a running", "b running", "c spare"});
  CHECK(held.board.status().stages[1].executor == "b");
  held.board.lost("b");
  CHECK(states(held.board.status()) == Texts{"a running", "b lost", "c spare"});
  held.board.back("b");
  held.board.left("a");
  held.board.left("c");
  held.board.left("nobody");
  CHECK(states(held.board.status()) == Texts{"a lost", "b running"});
}

TEST_CASE("what stands in a stage's buffers is shown until another executor has the stage", "[status]") {
  HeldBoard held;
  held.join("a");
  held.join("b");
  held.board.assigned("a", {StageIndex{0}, StageIndex{1}});
  const StageQueues queues{StageIndex{1}, 3, 7, 2, 9};
  held.board.queues(queues);
  const RunStatus status = held.board.status();
  CHECK_FALSE(status.stages[0].queues);
  REQUIRE(status.stages[1].queues);
  CHECK(*status.stages[1].queues == queues);
  CHECK(run_status_from(to_json(status).dump()) == status);
  CHECK(to_json(status)["stages"][1]["queues"].dump() ==
        R"({"inbound_waiting":3,"inbound_held":7,"outbound_unsent":2,"outbound_held":9})");
  held.board.assigned("a", {StageIndex{0}, StageIndex{1}});
  CHECK(held.board.status().stages[1].queues);
  held.board.assigned("b", {StageIndex{1}});
  CHECK_FALSE(held.board.status().stages[1].queues);
}

TEST_CASE("a spare that joins early does not begin the run", "[status]") {
  HeldBoard held;
  held.join("a");
  held.board.assigned("a", {});
  CHECK(states(held.board.status()) == Texts{"a spare"});
  CHECK(held.board.status().phase == RunPhase::waiting);
  held.join("b");
  held.board.assigned("b", {StageIndex{0}, StageIndex{1}});
  CHECK(held.board.status().phase == RunPhase::training);
}

TEST_CASE("windows, losses, restarts and the rate are those of the run", "[status]") {
  HeldBoard held;
  held.board.begin(WindowIndex{2}, WindowIndex{5}, false);
  CHECK(held.board.status().windows_done.value == 1);
  held.now += 60s;  // waiting for executors counts as time, but not for the rate
  held.join("a");
  held.board.assigned("a", {StageIndex{0}, StageIndex{1}});
  held.train(0, 2, 1.5);
  held.train(0, 3, 1.25);
  CHECK(held.board.status().windows_done.value == 1);
  CHECK(held.board.status().examples == 0);
  held.now += 2s;
  held.train(1, 2, 2.5);
  held.train(1, 2, 7.5);  // a replay
  held.board.durable(StageIndex{0}, WindowIndex{3});
  held.board.durable(StageIndex{0}, WindowIndex{2});
  held.board.restarted(StageIndex{1}, Incarnation{2});
  held.now += 1s;
  const RunStatus status = held.board.status();
  CHECK(status.phase == RunPhase::training);
  CHECK(status.seconds == 63.0);
  CHECK(status.windows_done.value == 2);
  CHECK(status.windows_last.value == 5);
  CHECK(status.examples == 16);
  CHECK(status.examples_per_second == 8.0);
  CHECK(status.stages[0].committed.value == 3);
  CHECK(status.stages[0].durable.value == 3);
  CHECK(status.stages[0].task_loss == 1.25);
  CHECK(status.stages[1].task_loss == 2.5);
  CHECK(status.stages[1].restarts == 1);
  CHECK(status.stages[1].incarnation.value == 2);
  held.board.end(ClusterOutcome::Kind::finished);
  held.now += 100s;
  CHECK(held.board.status().phase == RunPhase::finished);
  CHECK(held.board.status().seconds == 63.0);
}

TEST_CASE("a run that calibrates says so until every readout is fitted", "[status]") {
  HeldBoard held;
  held.board.begin(WindowIndex{1}, WindowIndex{5}, true);
  held.join("a");
  held.board.assigned("a", {StageIndex{0}, StageIndex{1}});
  CHECK(held.board.status().phase == RunPhase::calibrating);
  held.now += 10s;
  held.board.calibrated(StageIndex{1});
  CHECK(held.board.status().phase == RunPhase::calibrating);
  held.board.calibrated(StageIndex{0});
  CHECK(held.board.status().phase == RunPhase::training);
  held.now += 4s;
  held.train(1, 1, 1.0);
  CHECK(held.board.status().examples_per_second == 4.0);
}

TEST_CASE("observers are told after the board, and the board of executors", "[status]") {
  const auto board =
      std::make_shared<StatusBoard>("a-run", std::vector<LayerRange>{{0, 1}}, WindowIndex{1}, 1);
  std::uint64_t restarts_seen = 0;
  ClusterObserver observer;
  observer.restarted = [&](StageIndex, Incarnation, const std::string&) {
    restarts_seen = board->status().stages[0].restarts;
  };
  const ClusterObserver both = watched(board, observer);
  both.restarted(StageIndex{0}, Incarnation{2}, "stage 0 restarted");
  CHECK(restarts_seen == 1);
  const ExecutorObserver executors = executor_observer(board);
  ExecutorCard card;
  card.name = "a";
  executors.joined(card);
  executors.assigned("a", {StageIndex{0}});
  executors.lost("a");
  CHECK(states(board->status()) == Texts{"a lost"});
  executors.back("a");
  executors.durable(StageIndex{0}, WindowIndex{1});
  CHECK(board->status().stages[0].durable.value == 1);
  CHECK(states(board->status()) == Texts{"a running"});
}

TEST_CASE("a status reads back from its JSON, and nothing else does", "[status]") {
  HeldBoard held;
  held.join("a");
  held.join("b");
  held.board.assigned("a", {StageIndex{0}, StageIndex{1}});
  held.board.assigned("b", {});
  held.now += 2s;
  held.train(1, 1, 2.5);
  const RunStatus status = held.board.status();
  CHECK(run_status_from(to_json(status).dump()) == status);
  CHECK(read_status(status_frame(status)) == status);
  for (const char* text : {"", "null", "[]", "{}", R"({"run":5})"}) {
    INFO(text);
    CHECK_THROWS_AS(run_status_from(text), RunError);
  }
  auto changed = to_json(status);
  changed["phase"] = "sleeping";
  CHECK_THROWS_AS(run_status_from(changed.dump()), RunError);
}

TEST_CASE("names that are no UTF-8 make JSON all the same", "[status]") {
  HeldBoard held;
  held.join("\xff");
  CHECK(read_status(status_frame(held.board.status())).executors.size() == 1);
}

// -- over a connection -------------------------------------------------------------------------------------

struct WatchedBoard {
  std::shared_ptr<StatusBoard> board =
      std::make_shared<StatusBoard>("a-run", std::vector<LayerRange>{{0, 1}}, WindowIndex{1}, 1);
  StatusServer server{board};
  Network network;
  std::unique_ptr<Listener> listener;

  WatchedBoard() {
    ListenOptions options;
    options.address = {"127.0.0.1", 0};
    options.token = "secret";
    options.welcome = {{NodeRole::coordinator, "coordinator"}, program_version, "a-run"};
    ListenEvents events;
    events.hello = [this](const Hello& hello) {
      return hello.purpose == ConnectionPurpose::status ? server.answer() : HelloAnswer{Refusal{"what?"}};
    };
    events.accepted = [this](const std::shared_ptr<Connection>& connection, const Hello&) {
      server.serve(connection);
    };
    listener = network.listen(std::move(options), std::move(events));
  }
  ~WatchedBoard() { listener.reset(); }

  [[nodiscard]] DialOptions dial(const std::string& token = "secret") const {
    DialOptions dial;
    dial.address = listener->address();
    dial.hello.node = {NodeRole::executor, "status"};
    dial.hello.token = token;
    dial.peer = {NodeRole::coordinator, std::nullopt};
    return dial;
  }
};

TEST_CASE("a watcher sees each change, and the end unasked", "[status]") {
  WatchedBoard watched_board;
  StatusClient client(watched_board.dial());
  REQUIRE(client.fetch()->phase == RunPhase::waiting);
  ExecutorCard card;
  card.name = "a";
  watched_board.board->joined(card);
  REQUIRE(client.fetch()->executors.size() == 1);
  watched_board.board->end(ClusterOutcome::Kind::stopped);
  watched_board.server.finish();
  client.pause(std::chrono::hours(1));  // the news ends it
  CHECK(client.fetch()->phase == RunPhase::stopped);
  client.pause(std::chrono::hours(1));  // so does the bye
  CHECK_THROWS_WITH(client.fetch(), Catch::Contains("the run is over"));
}

TEST_CASE("who asks hears in one line why there is no answer", "[status]") {
  WatchedBoard watched_board;
  StatusClient stranger(watched_board.dial("wrong"));
  CHECK_THROWS_WITH(stranger.fetch(), Catch::Contains("the token is not this run's"));
  const DialOptions dial = watched_board.dial();
  watched_board.listener.reset();
  StatusClient late(dial);
  CHECK_THROWS_WITH(late.fetch(), Catch::Contains(dial.address.text()));
  StatusClient interrupted(dial);
  interrupted.interrupt();
  CHECK_FALSE(interrupted.fetch().has_value());
}

TEST_CASE("one watcher too many is refused, and those that leave make room", "[status]") {
  WatchedBoard watched_board;
  std::vector<std::unique_ptr<StatusClient>> watchers;
  for (std::size_t i = 0; i < StatusServer::watchers_max; ++i) {
    watchers.push_back(std::make_unique<StatusClient>(watched_board.dial()));
    REQUIRE(watchers.back()->fetch().has_value());
  }
  StatusClient refused(watched_board.dial());
  CHECK_THROWS_WITH(refused.fetch(), Catch::Contains("64 watchers"));
  watchers.clear();
  // The coordinator hears of it a moment later.
  bool let_in = false;
  for (int attempt = 0; attempt < 10'000 && !let_in; ++attempt) {
    StatusClient next(watched_board.dial());
    try {
      let_in = next.fetch().has_value();
    } catch (const RunError&) {
    }
  }
  CHECK(let_in);
}

}  // namespace
}  // namespace zerolock::test
