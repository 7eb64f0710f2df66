#pragma once
/// Everything that decides a stage's numbers. Parsed and validated once, then passed as const.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zerolock {

/// Which direction the consistency term takes. forward: KL(p_k || p_{k-1}), the paper's; reverse: KL(p_{k-1}
/// || p_k).
enum class KlDirection { forward, reverse };
enum class HeadKind { fixed, restricted };  // "static" and "restricted" on the command line
enum class OptimizerKind { adamw, sgd };
enum class ScheduleKind { constant, cosine, inverse_sqrt };
enum class ComputeType { fp32, bf16, fp64 };
c10::ScalarType scalar_type(ComputeType type);
/// How frozen weights are held: as their file has them, or converted when the stage opens.
enum class BaseFormat { keep, fp32, bf16, q8_0, q4_1 };

struct LoraSettings {
  std::int64_t rank = 4;
  double alpha = 16;
  bool rank_stabilised = false;  // scale alpha/sqrt(r) instead of alpha/r
  /// Of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj.
  std::vector<std::string> targets{"q_proj", "v_proj"};

  [[nodiscard]] double scale() const;
};

struct LossSettings {
  double alpha =
      1.0;  // weight of the task loss; 1 - alpha for the consistency term, which is not computed at 1
  KlDirection direction = KlDirection::forward;
  /// The first chunk is trained on the task loss alone, weight 1, unless this is set: then its consistency
  /// term is taken against the readout of the embeddings, p_0.
  bool first_chunk_consistency = false;
  HeadKind head = HeadKind::fixed;
  std::vector<std::int64_t>
      restricted_tokens;  // for HeadKind::restricted: the token ids of the softmax, in order
};

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-4;
  ScheduleKind schedule = ScheduleKind::constant;
  double schedule_offset = 1.0;        // gamma of eta_0 / sqrt(t + gamma), t = 0 at the first window
  std::uint64_t schedule_windows = 1;  // windows of a full cosine
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;       // decoupled, as in AdamW
  std::optional<double> clip_norm;  // over all of a stage's LoRA gradients
};

struct TrainingSettings {
  LoraSettings lora;
  LossSettings loss;
  OptimizerSettings optimizer;
  ComputeType compute = ComputeType::fp32;
  BaseFormat base = BaseFormat::keep;
  bool recompute = false;  // keep only each layer's input between forward and backward
  std::uint64_t seed = 0;  // of the LoRA initialisation
};

}  // namespace zerolock
