#pragma once
/// What a command says on stderr: --log-level and --log-json.

#include <CLI/App.hpp>

#include "apps/command/option_table.hpp"

namespace zerolock {

enum class LogLevel { debug, info, warn, error };

struct LogOptions {
  LogLevel level = LogLevel::info;
  bool json = false;  // one JSON object a line

  void declare(OptionTable& table);
};

/// Makes spdlog's default logger write to stderr as asked. Results go to stdout and never through the log.
void start_log(const LogOptions& options);

}  // namespace zerolock
