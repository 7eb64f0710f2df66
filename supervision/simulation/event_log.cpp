#include "supervision/simulation/event_log.hpp"

namespace zerolock::simulation {

void EventLog::note(const std::string& line) {
  std::string text = std::to_string(timeline_.now().count() / 1000);
  text.insert(0, text.size() < 9 ? 9 - text.size() : 0, ' ');
  text += " us  " + line;
  for (const char c : text) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;  // FNV-1a
  lines_.push_back(std::move(text));
  if (!all_ && lines_.size() > lines_kept) lines_.pop_front();
}

}  // namespace zerolock::simulation
