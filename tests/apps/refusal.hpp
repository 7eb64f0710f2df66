#pragma once
/// What the command line does with bad input, checked.

#include <string>
#include <vector>

#include "command_process.hpp"

namespace zerolock::testing {

/// Exit status 2, nothing on stdout, and one line on stderr, which holds `text`.
void check_refused(const CommandOutput& output, const std::string& text);
/// Runs it, and checks the same.
void check_refused(const std::vector<std::string>& arguments, const std::string& text);
/// Of a command that may have logged what it did before: the last line holds `text`.
void check_refused_at_last(const std::vector<std::string>& arguments, const std::string& text);

}  // namespace zerolock::testing
