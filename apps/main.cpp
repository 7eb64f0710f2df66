#include "apps/command/command_line.hpp"

int main(int argc, char** argv) {
  return zerolock::run_command_line(argc, argv);
}
