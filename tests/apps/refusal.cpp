#include "refusal.hpp"

#include <catch2/catch.hpp>

namespace zerolock::testing {

namespace {

void check_last_line(const CommandOutput& output, const std::string& text) {
  const std::vector<std::string> lines = output.error_lines();
  CHECK(output.status == 2);
  CHECK(output.out.empty());
  REQUIRE_FALSE(lines.empty());
  CHECK_THAT(lines.back(), Catch::Contains(text));
}

}  // namespace

void check_refused(const CommandOutput& output, const std::string& text) {
  INFO(output.err);
  CHECK(output.error_lines().size() == 1);
  check_last_line(output, text);
}

void check_refused(const std::vector<std::string>& arguments, const std::string& text) {
  check_refused(run_zerolock(arguments), text);
}

void check_refused_at_last(const std::vector<std::string>& arguments, const std::string& text) {
  const CommandOutput output = run_zerolock(arguments);
  INFO(output.err);
  check_last_line(output, text);
}

}  // namespace zerolock::testing
