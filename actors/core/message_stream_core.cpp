#include "actors/core/message_stream_core.hpp"

#include <iterator>
#include <utility>

namespace zerolock {

bool MessageStreamCore::push(std::string body, at::Tensor payload) {
  NumberedMessage message{next_number_, std::move(body), std::move(payload)};
  if (kept_.size() >= bounds_.messages_max || kept_bytes_ + message.bytes() > bounds_.bytes_max) return false;
  kept_bytes_ += message.bytes();
  kept_.push_back(std::move(message));
  ++next_number_;
  return true;
}

const NumberedMessage* MessageStreamCore::next_to_send() {
  if (!connected_ || next_to_send_ == next_number_) return nullptr;
  return &kept_[next_to_send_++ - first_kept_];
}

std::vector<NumberedMessage> MessageStreamCore::restart() {
  std::vector<NumberedMessage> lost(std::make_move_iterator(kept_.begin()),
                                    std::make_move_iterator(kept_.end()));
  *this = MessageStreamCore(bounds_);
  return lost;
}

bool MessageStreamCore::resume(std::uint64_t lacking) {
  if (!acknowledged(lacking)) return false;
  next_to_send_ = lacking;
  connected_ = true;
  return true;
}

bool MessageStreamCore::acknowledged(std::uint64_t lacking) {
  if (lacking < first_kept_ || lacking > next_number_) return false;
  while (first_kept_ < lacking) {
    kept_bytes_ -= kept_.front().bytes();
    kept_.pop_front();
    ++first_kept_;
  }
  if (next_to_send_ < first_kept_) next_to_send_ = first_kept_;
  return true;
}

MessageStreamCore::Reception MessageStreamCore::received(std::uint64_t number) {
  if (number < lacking_) return Reception::duplicate;
  if (number > lacking_) return Reception::gap;
  ++lacking_;
  return Reception::deliver;
}

}  // namespace zerolock
