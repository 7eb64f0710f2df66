#include "tensors/base/error.hpp"

namespace zerolock {

void invariant_failed(const char* expression, const char* file, int line, std::string_view detail) {
  throw std::logic_error("broken invariant " + std::string(expression) + " (" + std::string(detail) +
                         ") at " + file + ":" + std::to_string(line));
}

}  // namespace zerolock
