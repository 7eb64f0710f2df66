#include "tensors/base/indices.hpp"

namespace zerolock {

std::string to_string(const BatchPosition& position) {
  return "window " + std::to_string(position.window.value) + ", micro-batch " +
         std::to_string(position.micro_batch);
}

}  // namespace zerolock
