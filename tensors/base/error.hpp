#pragma once
/// The two ways a command can fail, and the check that guards what must hold.

#include <stdexcept>
#include <string>
#include <string_view>

namespace zerolock {

/// Something the user gave (a file, a flag, a data row) cannot be used. The message is one line that names
/// what, where and why; the process ends with status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// "WHERE: REASON"
  InputError(std::string_view where, std::string_view reason)
      : std::runtime_error(std::string(where) + ": " + std::string(reason)) {}
};

/// The run itself failed (a disk, a device, a number that is not finite). The process ends with status 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void invariant_failed(const char* expression, const char* file, int line,
                                   std::string_view detail);

/// Checks what must hold whatever the input; kept in release builds. A failure throws std::logic_error, which
/// kills the actor that met it and leaves the decision to its supervisor.
#define ZEROLOCK_INVARIANT(condition, detail) \
  ((condition) ? static_cast<void>(0)         \
               : ::zerolock::invariant_failed(#condition, __FILE__, __LINE__, (detail)))

}  // namespace zerolock
