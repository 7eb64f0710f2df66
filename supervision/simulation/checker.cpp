#include "supervision/simulation/checker.hpp"

#include <algorithm>

namespace zerolock::simulation {

std::string name_of(StageIndex stage) {
  return "stage " + std::to_string(stage.value);
}

Checker::Checker(const Scenario& scenario, const ExpectedNumbers& expected, EventLog& log)
    : scenario_(scenario),
      expected_(expected),
      log_(log),
      stages_(scenario.stages),
      executor_disturbances_(scenario.executors()) {}

void Checker::fail(const std::string& invariant, const std::string& what) const {
  throw Violation(invariant + ": " + what);
}

/// The number of the micro-batch within the run.
std::uint64_t Checker::place(const BatchPosition& position) const {
  std::uint64_t before = position.micro_batch;
  for (WindowIndex window{1}; window < position.window; window = window.next()) {
    before += scenario_.micro_batches(window);
  }
  return before;
}

void Checker::disturbed(StageIndex stage, const std::string& how) {
  ++stages_.at(stage.value).disturbances;
  log_.note(name_of(stage) + " is disturbed: " + how);
}

void Checker::damaged(StageIndex stage, WindowIndex window) {
  log_.note(name_of(stage) + " passes over its damaged checkpoint of window " + std::to_string(window.value));
  if (window > stages_.at(stage.value).copied) return;  // it never counted as durable
  damage_ = true;
  // Every stage up to this one may have to make its outputs again, with new buffers.
  for (std::uint64_t k = 0; k <= stage.value; ++k) stages_[k].disturbances += 2;
}

void Checker::placed_again(StageIndex stage, std::size_t from_executor) {
  if (executor_disturbances_.at(from_executor) == 0) {
    fail("isolation", name_of(stage) + " was taken from executor " + std::to_string(from_executor) +
                          ", to which nothing has happened");
  }
  disturbed(stage, "placed on another executor");
}

void Checker::life_begins(StageIndex stage, Incarnation incarnation, WindowIndex committed,
                          std::uint64_t state) {
  Stage& known = stages_.at(stage.value);
  ++known.lives;
  if (known.lives > 1 + known.disturbances) {
    fail("isolation", name_of(stage) + " begins life " + std::to_string(known.lives) + " after only " +
                          std::to_string(known.disturbances) + " disturbances");
  }
  if (state != expected_.state_after(stage, committed)) {
    fail("no silent damage",
         name_of(stage) + " goes on from a wrong state of window " + std::to_string(committed.value));
  }
  // An executor that was replaced and does not know it yet may begin lives too.
  known.incarnation = std::max(known.incarnation, incarnation);
}

void Checker::received(StageIndex stage, std::uint64_t session, std::uint64_t current_session,
                       const Entry& entry) {
  if (session != current_session) fail("fenced", name_of(stage) + " takes an entry of another session");
  if (value_of(entry) != expected_.entry(stage.value, entry.position)) {
    fail("same bits", name_of(stage) + " takes a wrong entry for " + to_string(entry.position));
  }
}

void Checker::forwarded(StageIndex stage, const BatchPosition& position, std::uint64_t value) {
  if (value != expected_.entry(stage.value + 1, position)) {
    fail("same bits", name_of(stage) + " makes a wrong hidden state of " + to_string(position));
  }
}

void Checker::backward_begins(StageIndex stage, const BatchPosition& position, bool sent_on) const {
  if (!sent_on) {
    fail("early forwarding", name_of(stage) + " begins the backward of " + to_string(position) +
                                 " before it has sent its hidden state on");
  }
}

void Checker::stepped(StageIndex stage, WindowIndex window, std::uint64_t state) {
  Stage& known = stages_.at(stage.value);
  ++known.steps;
  known.committed = std::max(known.committed, window);
  if (state != expected_.state_after(stage, window)) {
    fail("exactly once", name_of(stage) + " commits window " + std::to_string(window.value) +
                             " with another state than the undisturbed run");
  }
}

void Checker::in_flight(StageIndex boundary, std::uint64_t entries, std::uint64_t bytes) const {
  if (entries > scenario_.depth || bytes > scenario_.buffer_bytes_max) {
    fail("bounded", std::to_string(entries) + " entries of " + std::to_string(bytes) +
                        " bytes are on their way into " + name_of(boundary));
  }
}

void Checker::inbound_kept(StageIndex stage, const HiddenStateBufferCore& buffer,
                           const CheckpointDisk& disk) const {
  if (buffer.held_bytes() > scenario_.buffer_bytes_max) {
    fail("bounded", name_of(stage) + " holds " + std::to_string(buffer.held_bytes()) + " inbound bytes");
  }
  const std::vector<WindowIndex> stored = disk.windows(stage);
  const WindowIndex durable = stored.empty() ? WindowIndex{0} : stored.back();
  const std::uint64_t first_held = place(buffer.next_expected()) - buffer.held_entries();
  if (first_held > place({durable.next(), 0})) {
    fail("nothing released early", name_of(stage) + " has released inputs after window " +
                                       std::to_string(durable.value) + ", its last durable one");
  }
}

void Checker::outbound_kept(StageIndex stage, const OutboundBufferCore& buffer,
                            const BatchPosition& born) const {
  if (!buffer.next()) return;
  if (buffer.held_bytes() > scenario_.buffer_bytes_max) {
    fail("bounded", name_of(stage) + " holds " + std::to_string(buffer.held_bytes()) + " outbound bytes");
  }
  const std::uint64_t first_held = place(*buffer.next()) - buffer.held_entries();
  const BatchPosition needed = std::max(BatchPosition{true_line().next(), 0}, born);
  if (first_held > place(needed)) {
    fail("nothing released early", name_of(stage) + " has released outputs from " + to_string(needed) +
                                       " on, behind the recovery line");
  }
}

void Checker::outbound_lacks(StageIndex stage, const BatchPosition& lacking, const BatchPosition& born) {
  if (lacking >= born && !damage_) {
    fail("isolation", name_of(stage) + " no longer has " + to_string(lacking) + ", which the next one lacks");
  }
  // Its buffer was made anew when the next stage had that entry, and the next stage has lost it since.
  ++second_rollbacks_;
  disturbed(stage, "the next stage lacks " + to_string(lacking) + " again");
}

void Checker::session_opened(StageIndex boundary, std::uint64_t session, std::uint64_t highest) const {
  if (session < highest) {
    fail("fenced", "session " + std::to_string(session) + " is opened into " + name_of(boundary) +
                       " after session " + std::to_string(highest));
  }
}

void Checker::copied(StageIndex stage, WindowIndex window) {
  stages_.at(stage.value).copied = std::max(stages_.at(stage.value).copied, window);
}

WindowIndex Checker::true_line() const {
  return std::min_element(stages_.begin(), stages_.end(),
                          [](const Stage& a, const Stage& b) { return a.copied < b.copied; })
      ->copied;
}

void Checker::line_announced(WindowIndex line, const CheckpointDisk& copies) const {
  if (line > true_line()) {
    fail("nothing released early", "the recovery line moves to window " + std::to_string(line.value) +
                                       ", and not all stages are durable there");
  }
  for (std::uint64_t k = 0; k < scenario_.stages; ++k) {
    const std::vector<WindowIndex> windows = copies.windows(StageIndex{k});
    if (!windows.empty() && windows.front() > line) {
      fail("nothing released early", "the coordinator has no checkpoint of " + name_of(StageIndex{k}) +
                                         " up to window " + std::to_string(line.value));
    }
  }
}

void Checker::granted(WindowIndex window, WindowIndex line) const {
  if (window.value > line.value + scenario_.lead_windows) {
    fail("bounded", "window " + std::to_string(window.value) + " is granted beyond the lead");
  }
}

void Checker::heard_of(StageIndex stage, Placement placement, Placement current) const {
  if (placement != current) {
    fail("fenced", "placement " + std::to_string(placement.value) + " of " + name_of(stage) +
                       " is listened to, which was replaced");
  }
}

void Checker::finished(WindowIndex last, const CheckpointDisk& copies) const {
  for (std::uint64_t k = 0; k < scenario_.stages; ++k) {
    const StageIndex stage{k};
    const auto stored = copies.read(stage, last);
    if (!stored) fail("exactly once", name_of(stage) + " has no checkpoint of the last window");
    if (copies.good(stage, last) && stored->value != expected_.state_after(stage, last)) {
      fail("same bits", name_of(stage) + " ends with another state than the undisturbed run");
    }
    const Stage& known = stages_[k];
    if (known.disturbances == 0 && (known.lives != 1 || known.steps != last.value)) {
      fail("isolation", name_of(stage) + " was never disturbed, lived " + std::to_string(known.lives) +
                            " times and stepped " + std::to_string(known.steps) + " times");
    }
  }
}

std::uint64_t Checker::lives() const {
  std::uint64_t sum = 0;
  for (const Stage& stage : stages_) sum += stage.lives;
  return sum;
}

}  // namespace zerolock::simulation
