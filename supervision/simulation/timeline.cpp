#include "supervision/simulation/timeline.hpp"

#include <algorithm>
#include <utility>

namespace zerolock::simulation {

/// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

Life new_life() {
  return std::make_shared<const char>('\0');
}

void Timeline::at(Time time, Host& host, const WeakLife& life, Act act) {
  heap_.push_back({std::max(time, now_), numbers_++, &host, life, std::move(act)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Timeline::along(Lane& lane, Time delay, Host& host, const WeakLife& life, Act act) {
  lane.last = std::max(lane.last, now_ + delay);
  at(lane.last, host, life, std::move(act));
}

void Timeline::resume(Host& host) {
  host.paused = false;
  while (!host.deferred.empty() && !host.paused) {
    const Host::Deferred deferred = std::move(host.deferred.front());
    host.deferred.pop_front();
    if (const auto alive = deferred.life.lock()) deferred.act();
  }
}

bool Timeline::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.time;
  ++steps_;
  const auto alive = event.life.lock();
  if (!alive) return true;
  if (event.host->paused) {
    event.host->deferred.push_back({std::move(event.life), std::move(event.act)});
  } else {
    event.act();
  }
  return true;
}

}  // namespace zerolock::simulation
