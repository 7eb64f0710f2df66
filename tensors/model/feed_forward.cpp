#include "tensors/model/feed_forward.hpp"

#include "tensors/model/fused_loops.hpp"
#include "tensors/model/tensor_kind.hpp"

namespace zerolock {

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  if (is_dense_float(gate) && is_dense_float(up)) {
    at::Tensor out = at::empty_like(gate);
    fused::swiglu(gate.data_ptr<float>(), up.data_ptr<float>(), gate.numel(), out.data_ptr<float>());
    return out;
  }
  return at::silu(gate).mul_(up);
}

void swiglu_backward(const at::Tensor& doutput, at::Tensor& gate, at::Tensor& up) {
  if (is_dense_float(gate) && is_dense_float(up) && is_dense_float(doutput)) {
    fused::swiglu_backward(doutput.data_ptr<float>(), gate.numel(), gate.data_ptr<float>(),
                           up.data_ptr<float>());
    return;
  }
  const at::Tensor sigmoid = at::sigmoid(gate);
  const at::Tensor silu = gate.mul(sigmoid);
  // silu' = sigmoid * (1 + gate * (1 - sigmoid))
  const at::Tensor dsilu = sigmoid.neg().add_(1).mul_(gate).add_(1).mul_(sigmoid);
  gate.copy_(dsilu.mul_(up).mul_(doutput));
  up.copy_(silu.mul(doutput));
}

}  // namespace zerolock
