#include "tensors/model/decoder_layer.hpp"

#include <utility>

#include "tensors/model/feed_forward.hpp"

namespace zerolock {
namespace {

constexpr std::array<std::string_view, projection_count> module_paths = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

constexpr std::size_t index_of(Projection p) {
  return static_cast<std::size_t>(p);
}

/// A projection that leaves its LoRA part on the tape.
at::Tensor project(const DecoderLayer& layer, Projection p, const at::Tensor& x, const LayerContext& context,
                   LayerTape& tape) {
  return linear_forward(layer[p], x, context.scratch, &tape.projected[index_of(p)]);
}

at::Tensor project_onto(const DecoderLayer& layer, Projection p, const at::Tensor& x,
                        const at::Tensor& residual, const LayerContext& context, LayerTape& tape) {
  return linear_forward_onto(layer[p], x, residual, context.scratch, &tape.projected[index_of(p)]);
}

/// Fills the tape up to gate and up.
void record(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context, LayerTape& tape) {
  const std::int64_t d = layer.attention.head_dimension;
  tape.input = x;
  {
    const at::Tensor normed = rms_norm_forward(layer.attention_norm, x, &tape.attention_inverse_rms);
    tape.query = project(layer, Projection::query, normed, context, tape);
    tape.key = project(layer, Projection::key, normed, context, tape);
    tape.value = project(layer, Projection::value, normed, context, tape);
  }
  rotate(tape.query, context.rotary, context.sequence_offsets, 0, d, Rotation::forward);
  rotate(tape.key, context.rotary, context.sequence_offsets, 0, d, Rotation::forward);
  tape.attention =
      attention_forward(tape.query, tape.key, tape.value, context.sequence_offsets, layer.attention);
  tape.middle = project_onto(layer, Projection::output, tape.attention.output, x, context, tape);
  const at::Tensor normed =
      rms_norm_forward(layer.feed_forward_norm, tape.middle, &tape.feed_forward_inverse_rms);
  tape.gate = project(layer, Projection::gate, normed, context, tape);
  tape.up = project(layer, Projection::up, normed, context, tape);
}

/// The norm's output again if one of the layers that read it is adapted, else an undefined tensor.
at::Tensor normed_input(const DecoderLayer& layer, std::initializer_list<Projection> readers,
                        const RmsNorm& norm, const at::Tensor& x, const at::Tensor& inverse_rms) {
  for (const Projection p : readers) {
    if (layer[p].lora) return rms_norm_again(norm, x, inverse_rms);
  }
  return {};
}

/// dh = dy + the feed-forward half's part, in place of dy; `parts` of these rows, here and below.
void feed_forward_backward(DecoderLayer& layer, at::Tensor& dy, LayerTape& tape, const LayerContext& context,
                           const RowParts& parts) {
  const auto backward = [&](Projection p, const at::Tensor& gradient, const at::Tensor& input,
                            at::Tensor& sum) {
    linear_backward(layer[p], gradient, input, tape.projected[index_of(p)], context.scratch, sum, parts);
  };
  at::Tensor dproduct;
  {
    const at::Tensor product =
        layer[Projection::down].lora ? swiglu_forward(tape.gate, tape.up) : at::Tensor();
    backward(Projection::down, dy, product, dproduct);
  }
  swiglu_backward(dproduct, tape.gate, tape.up);
  dproduct.reset();
  at::Tensor dnormed;
  {
    const at::Tensor normed = normed_input(layer, {Projection::gate, Projection::up}, layer.feed_forward_norm,
                                           tape.middle, tape.feed_forward_inverse_rms);
    backward(Projection::gate, tape.gate, normed, dnormed);
    tape.gate.reset();
    backward(Projection::up, tape.up, normed, dnormed);
    tape.up.reset();
  }
  rms_norm_backward(layer.feed_forward_norm, dnormed, tape.middle, tape.feed_forward_inverse_rms, dy);
  tape.middle.reset();
}

/// Gradient of the attention's output, given that of h; both, and the tape's output, at the same rows.
at::Tensor output_projection_backward(DecoderLayer& layer, const at::Tensor& dh, const at::Tensor& output,
                                      const at::Tensor& projected, const LayerContext& context,
                                      const RowParts& parts) {
  at::Tensor doutput;
  linear_backward(layer[Projection::output], dh, output, projected, context.scratch, doutput, parts);
  return doutput;
}

/// Gradients of the query, key and value projections' outputs; uses up the attention's part of the tape.
AttentionGradients rotated_attention_backward(const DecoderLayer& layer, const at::Tensor& doutput,
                                              LayerTape& tape, const LayerContext& context) {
  const std::int64_t d = layer.attention.head_dimension;
  AttentionGradients gradients = attention_backward(doutput, tape.query, tape.key, tape.value, tape.attention,
                                                    context.sequence_offsets, layer.attention);
  tape.query.reset();
  tape.key.reset();
  tape.value.reset();
  tape.attention = {};
  rotate(gradients.query, context.rotary, context.sequence_offsets, 0, d, Rotation::backward);
  rotate(gradients.key, context.rotary, context.sequence_offsets, 0, d, Rotation::backward);
  return gradients;
}

/// dx = dh + what comes through the query, key and value projections, in place of dh; LoRA gradients alone if
/// nobody needs dx.
at::Tensor input_backward(DecoderLayer& layer, const AttentionGradients& gradients, at::Tensor dh,
                          const LayerTape& tape, const LayerContext& context, bool need_input_gradient) {
  const at::Tensor normed = normed_input(layer, {Projection::query, Projection::key, Projection::value},
                                         layer.attention_norm, tape.input, tape.attention_inverse_rms);
  const std::array<std::pair<Projection, const at::Tensor*>, 3> readers = {
      {{Projection::query, &gradients.query},
       {Projection::key, &gradients.key},
       {Projection::value, &gradients.value}}};
  at::Tensor dnormed;
  for (const auto& [p, gradient] : readers) {
    const at::Tensor& projected = tape.projected[index_of(p)];
    if (need_input_gradient) {
      linear_backward(layer[p], *gradient, normed, projected, context.scratch, dnormed, context.parts);
    } else {
      linear_backward_parameters(layer[p], *gradient, normed, projected, context.parts);
    }
  }
  if (!need_input_gradient) return {};
  rms_norm_backward(layer.attention_norm, dnormed, tape.input, tape.attention_inverse_rms, dh);
  return dh;
}

/// The given rows of what the feed-forward half and the output projection left on the tape. Uses up the
/// original.
LayerTape row_wise_part(LayerTape& tape, const at::Tensor& rows) {
  const auto select = [&](at::Tensor& all) {
    at::Tensor some = all.defined() ? all.index_select(0, rows) : at::Tensor();
    all.reset();
    return some;
  };
  LayerTape part;
  part.middle = select(tape.middle);
  part.feed_forward_inverse_rms = select(tape.feed_forward_inverse_rms);
  part.gate = select(tape.gate);
  part.up = select(tape.up);
  part.attention.output =
      tape.attention.output.index_select(0, rows);  // attention's backward needs all of it, too
  for (const Projection p : {Projection::output, Projection::gate, Projection::up, Projection::down}) {
    part.projected[index_of(p)] = select(tape.projected[index_of(p)]);
  }
  return part;
}

/// [n, width] at the given rows of a matrix that is zero elsewhere.
at::Tensor spread(const at::Tensor& some, const at::Tensor& rows, std::int64_t count) {
  return at::zeros({count, some.size(1)}, some.options()).index_copy_(0, rows, some);
}

}  // namespace

std::string_view module_path(Projection projection) {
  return module_paths[index_of(projection)];
}

std::string_view target_name(Projection projection) {
  const std::string_view path = module_path(projection);
  return path.substr(path.find('.') + 1);
}

at::Tensor layer_forward(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                         LayerTape* tape) {
  LayerTape own;
  LayerTape& used = tape != nullptr ? *tape : own;
  record(layer, x, context, used);
  if (tape == nullptr) {  // nothing of these is needed any more
    own.query.reset();
    own.key.reset();
    own.value.reset();
    own.attention = {};
  }
  const at::Tensor product = swiglu_forward(used.gate, used.up);
  if (tape == nullptr) {
    own.gate.reset();
    own.up.reset();
  }
  const MemoryScope scope(context.output_component);
  return project_onto(layer, Projection::down, product, used.middle, context, used);
}

void layer_record(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                  LayerTape& tape) {
  record(layer, x, context, tape);
  if (layer[Projection::down].lora) {
    const at::Tensor product = swiglu_forward(tape.gate, tape.up);
    tape.projected[index_of(Projection::down)] =
        at::mm(product, layer[Projection::down].lora->a.to(product.scalar_type()).t());
  }
}

at::Tensor layer_decode(const DecoderLayer& layer, const at::Tensor& x, const LayerContext& context,
                        LayerCache& cache) {
  const std::int64_t d = layer.attention.head_dimension;
  const std::int64_t first = cache.rows();
  const at::Tensor normed = rms_norm_forward(layer.attention_norm, x, nullptr);
  at::Tensor query = linear_forward(layer[Projection::query], normed, context.scratch, nullptr);
  at::Tensor key = linear_forward(layer[Projection::key], normed, context.scratch, nullptr);
  const at::Tensor value = linear_forward(layer[Projection::value], normed, context.scratch, nullptr);
  rotate(query, context.rotary, context.sequence_offsets, first, d, Rotation::forward);
  rotate(key, context.rotary, context.sequence_offsets, first, d, Rotation::forward);
  cache.append(key, value);
  const at::Tensor seen = attention_of_last_rows(query, cache.key(), cache.value(), layer.attention);
  const at::Tensor middle = linear_forward_onto(layer[Projection::output], seen, x, context.scratch, nullptr);
  const at::Tensor again = rms_norm_forward(layer.feed_forward_norm, middle, nullptr);
  const at::Tensor gate = linear_forward(layer[Projection::gate], again, context.scratch, nullptr);
  const at::Tensor up = linear_forward(layer[Projection::up], again, context.scratch, nullptr);
  return linear_forward_onto(layer[Projection::down], swiglu_forward(gate, up), middle, context.scratch,
                             nullptr);
}

at::Tensor layer_backward(DecoderLayer& layer, at::Tensor dy, LayerTape tape, const LayerContext& context,
                          bool need_input_gradient) {
  feed_forward_backward(layer, dy, tape, context, context.parts);
  at::Tensor& dh = dy;
  const at::Tensor doutput = output_projection_backward(
      layer, dh, tape.attention.output, tape.projected[index_of(Projection::output)], context, context.parts);
  const AttentionGradients gradients = rotated_attention_backward(layer, doutput, tape, context);
  return input_backward(layer, gradients, std::move(dh), tape, context, need_input_gradient);
}

at::Tensor layer_backward_from_rows(DecoderLayer& layer, at::Tensor dy, const at::Tensor& rows,
                                    LayerTape tape, const LayerContext& context, bool need_input_gradient) {
  const std::int64_t count = tape.input.size(0);
  LayerTape part = row_wise_part(tape, rows);
  feed_forward_backward(layer, dy, part, context, context.some_parts);
  const at::Tensor& dh = dy;
  const at::Tensor doutput =
      output_projection_backward(layer, dh, part.attention.output,
                                 part.projected[index_of(Projection::output)], context, context.some_parts);
  const AttentionGradients gradients =
      rotated_attention_backward(layer, spread(doutput, rows, count), tape, context);
  return input_backward(layer, gradients, need_input_gradient ? spread(dh, rows, count) : at::Tensor(), tape,
                        context, need_input_gradient);
}

}  // namespace zerolock
