#include "tensors/model/key_value_cache.hpp"

#include <algorithm>

namespace zerolock {
namespace {

/// A tensor of `capacity` rows that starts with the given ones.
at::Tensor enlarged(const at::Tensor& rows, std::int64_t used, std::int64_t capacity,
                    const at::Tensor& like) {
  at::Tensor larger = at::empty({capacity, like.size(1)}, like.options());
  if (used > 0) larger.narrow(0, 0, used).copy_(rows.narrow(0, 0, used));
  return larger;
}

}  // namespace

void LayerCache::append(const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t needed = rows_ + key.size(0);
  if (!key_.defined() || key_.size(0) < needed) {
    const std::int64_t capacity = std::max({needed, 2 * rows_, std::int64_t{64}});
    key_ = enlarged(key_, rows_, capacity, key);
    value_ = enlarged(value_, rows_, capacity, value);
  }
  key_.narrow(0, rows_, key.size(0)).copy_(key);
  value_.narrow(0, rows_, value.size(0)).copy_(value);
  rows_ = needed;
}

}  // namespace zerolock
