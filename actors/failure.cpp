#include "actors/failure.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr caf::atom_value failure_category = caf::atom("zerolock");

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool is_failure(const caf::error& error) {
  return error && error.category() == failure_category;
}

}  // namespace

caf::error make_failure(Failure kind, const std::string& text) {
  return {static_cast<std::uint8_t>(kind), failure_category, caf::make_message(one_line(text))};
}

caf::error to_failure(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const InputError& error) {
    return make_failure(Failure::bad_input, error.what());
  } catch (const std::exception& error) {
    return make_failure(Failure::transient, error.what());
  } catch (...) {
    return make_failure(Failure::transient, "something that is no exception was thrown");
  }
}

std::string cause_of(const caf::error& error) {
  if (!error) return "it ended without a reason";
  if (is_failure(error) && error.context().match_elements<std::string>())
    return error.context().get_as<std::string>(0);
  if (error == caf::exit_reason::kill) return "it was killed";
  if (error == caf::sec::request_timeout) return "an answer did not come within its deadline";
  if (error == caf::sec::request_receiver_down) return "the actor that should have answered is gone";
  return one_line(caf::to_string(error));
}

bool is_permanent(const caf::error& error) {
  return is_failure(error) && error.code() != static_cast<std::uint8_t>(Failure::transient);
}

bool is_bad_input(const caf::error& error) {
  return is_failure(error) && error.code() == static_cast<std::uint8_t>(Failure::bad_input);
}

bool is_orderly(const caf::error& error) {
  return !error || error == caf::exit_reason::user_shutdown || error == caf::exit_reason::normal;
}

}  // namespace zerolock
