#include "actors/core/membership_core.hpp"

#include <algorithm>

namespace zerolock {

std::string describe(Admission admission) {
  switch (admission) {
    case Admission::accepted:
      return "is a member";
    case Admission::name_taken:
      return "is taken by a live executor";
    case Admission::other_version:
      return "runs another version";
    case Admission::earlier_placement:
      return "has been replaced by a later start";
  }
  return "is unknown";
}

Admission MembershipCore::join(const ExecutorCard& card, std::chrono::nanoseconds now) {
  if (card.version != version_) return Admission::other_version;
  const auto known = members_.find(card.name);
  if (known != members_.end()) {
    if (card.placement < known->second.card.placement) return Admission::earlier_placement;
    const bool alive = now - known->second.last_heard <= lease_;
    if (card.placement == known->second.card.placement && alive) return Admission::name_taken;
  }
  members_[card.name] = Member{card, now};
  return Admission::accepted;
}

bool MembershipCore::beat(const std::string& name, std::uint64_t placement, std::chrono::nanoseconds now) {
  const auto known = members_.find(name);
  if (known == members_.end() || known->second.card.placement != placement) return false;
  known->second.last_heard = std::max(known->second.last_heard, now);
  return true;
}

void MembershipCore::leave(const std::string& name, std::uint64_t placement) {
  const auto known = members_.find(name);
  if (known != members_.end() && known->second.card.placement == placement) members_.erase(known);
}

std::vector<std::string> MembershipCore::silent(std::chrono::nanoseconds now) const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (now - member.last_heard > lease_) names.push_back(name);
  }
  return names;
}

std::vector<ExecutorCard> MembershipCore::members() const {
  std::vector<ExecutorCard> cards;
  cards.reserve(members_.size());
  for (const auto& [name, member] : members_) cards.push_back(member.card);
  return cards;
}

}  // namespace zerolock
