#pragma once
/// How actors fail: with a text, never onto stdout, and with a word on whether trying again can help.

#include <caf/all.hpp>
#include <string>

namespace zerolock {

enum class Failure : std::uint8_t {
  transient = 1,  // trying again may help
  permanent,      // trying again cannot help
  bad_input,      // something the user gave cannot be used: permanent, and the text is the whole message
};

caf::error make_failure(Failure kind, const std::string& text);
/// Of an exception in flight: InputError is bad_input, everything else transient.
caf::error to_failure(const std::exception_ptr& exception);

/// The text of one of our errors, or CAF's rendering of any other; one line.
std::string cause_of(const caf::error& error);
[[nodiscard]] bool is_permanent(const caf::error& error);
[[nodiscard]] bool is_bad_input(const caf::error& error);
/// The reason of an actor that was asked to go.
[[nodiscard]] bool is_orderly(const caf::error& error);

/// Turns exceptions into failures with their text, and refuses unknown messages silently. For every actor's
/// constructor.
template <class Self>
void contain_failures(Self* self) {
  self->set_exception_handler([](std::exception_ptr& exception) { return to_failure(exception); });
  self->set_default_handler([](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
    return caf::make_error(caf::sec::unexpected_message);
  });
}

/// No orphans: the actor ends when `parent` does, however that happens. Replaces the down handler.
template <class Self>
void live_under(Self* self, const caf::actor_addr& parent) {
  self->monitor(parent);
  self->set_down_handler([self, parent](caf::down_msg& down) {
    if (down.source == parent) self->quit(caf::exit_reason::user_shutdown);
  });
}

/// Asks a child to go, ahead of whatever else waits in its mailbox.
template <class Self>
void send_stop(Self* self, const caf::actor& child) {
  caf::anon_send<caf::message_priority::high>(
      child, caf::exit_msg{self->address(), caf::exit_reason::user_shutdown});
}

}  // namespace zerolock
