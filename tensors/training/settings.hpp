#pragma once
/// Everything that decides a stage's numbers. Parsed and validated once, then passed as const.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensors/base/indices.hpp"

namespace zerolock {

/// Which direction the consistency term takes. forward: KL(p_k || p_{k-1}), the paper's; reverse: KL(p_{k-1}
/// || p_k).
enum class KlDirection { forward, reverse };
/// How a stage reads logits out of its hidden state h; W are the rows of the model's readout matrix:
///   fixed ("static" on the command line)  FinalNorm(h) W^T
///   restricted                            the same over the rows of some tokens only
///   calibrated                            FinalNorm(h A + b) W^T, A and b fitted before training
///   adapter                               (u + MLP(u)) W^T with u = FinalNorm(h), the MLP trained along
///   bottleneck                            FinalNorm(h) D^T U^T, D and U from W's truncated SVD
enum class HeadKind { fixed, restricted, calibrated, adapter, bottleneck };
/// What a stage beyond the first minimises; p is its readout, q the readout of the hidden state it received,
/// and p* the normalised geometric mean of the smoothed label distribution and q, with weights alpha and
/// 1 - alpha.
enum class LossForm {
  weighted_terms,        // alpha CE(p, label) + (1 - alpha) KL, in the direction asked for
  target_cross_entropy,  // -sum p* log p
  target_divergence,     // KL(p || p*) = alpha KL(p || labels) + (1 - alpha) KL(p || q) - constant: eq. (14)
};
enum class OptimizerKind { adamw, sgd };
enum class ScheduleKind { constant, cosine, inverse_sqrt };
enum class ComputeType { fp32, bf16, fp64 };
c10::ScalarType scalar_type(ComputeType type);
/// Who turns token ids into the first stage's input: that stage, or the batch source, so that ids stay where
/// the rows are. The numbers are the same.
enum class EmbedAt { stage, source };
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

struct HeadSettings {
  HeadKind kind = HeadKind::fixed;
  /// Token ids of the softmax, in order; none: the whole vocabulary. Every kind but fixed may have them,
  /// restricted must.
  std::vector<std::int64_t> restricted_tokens;
  double ridge = 0.1;                  // calibrated: c of lambda = c trace(G) / width
  std::int64_t bottleneck_rank = 64;   // bottleneck: at most width and outputs
  bool bottleneck_trained = false;     // bottleneck: D and U trained along, or frozen as factored
  std::int64_t adapter_width = 64;     // adapter: features of the MLP's hidden layer
  std::uint64_t adapter_warm_up = 16;  // adapter: first steps in which it alone is trained

  /// Throws InputError that names the setting.
  void check() const;
};

struct LossSettings {
  double alpha =
      1.0;  // weight of the task loss; 1 - alpha for the consistency term, which is not computed at 1
  LossForm form = LossForm::weighted_terms;
  double label_smoothing = 0.1;  // of the label distribution in p*, spread over all outputs
  KlDirection direction = KlDirection::forward;
  /// The first chunk is trained on the task loss alone, weight 1, unless this is set: then its consistency
  /// term is taken against the readout of the embeddings, p_0.
  bool first_chunk_consistency = false;
  HeadSettings inner_head;  // of every stage but the last
  HeadSettings last_head;   // of the last

  /// The head of one of `stages` stages.
  [[nodiscard]] const HeadSettings& head_of(StageIndex stage, std::uint64_t stages) const {
    return stage.value + 1 == stages ? last_head : inner_head;
  }
};

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-4;
  double inner_learning_rate_scale = 1.0;  // factor of the rate in every stage but the last
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
  std::uint64_t seed = 0;  // of the LoRA and adapter head initialisation
  /// Stages that are trained; the others only forward. None given: all.
  std::optional<std::set<std::uint64_t>> trained_stages;
  /// Calibration keeps the first so many supervised rows: the bound of its memory.
  std::int64_t calibration_rows_max = 4096;
  EmbedAt embed_at = EmbedAt::stage;

  [[nodiscard]] bool trains(StageIndex stage) const {
    return !trained_stages || trained_stages->contains(stage.value);
  }
  /// Whether a stage receives token ids, and looks them up in the embedding itself.
  [[nodiscard]] bool embeds(StageIndex stage) const { return stage.value == 0 && embed_at == EmbedAt::stage; }
  /// Throws InputError that names the first setting out of its range, for a run of so many stages.
  void check(std::uint64_t stages) const;
};

}  // namespace zerolock
