#pragma once
/// The `zerolock` command: finds the subcommand, reads its flags, runs it, turns every failure into one line.

namespace zerolock {

/// Returns the exit status: 0 done, 1 the run failed, 2 wrong usage or bad input, 130 after Ctrl-C.
int run_command_line(int argc, const char* const* argv);

}  // namespace zerolock
