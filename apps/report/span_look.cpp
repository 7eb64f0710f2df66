#include "apps/report/span_look.hpp"

#include <algorithm>

#include "tensors/base/error.hpp"

namespace zerolock {

const SpanLook& span_look(TraceSpan::Kind kind) {
  const auto* found = std::find_if(span_looks.begin(), span_looks.end(),
                                   [&](const SpanLook& look) { return look.kind == kind; });
  ZEROLOCK_INVARIANT(found != span_looks.end(), "every kind of a span has a look");
  return *found;
}

}  // namespace zerolock
