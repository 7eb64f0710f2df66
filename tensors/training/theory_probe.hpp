#pragma once
/// The quantities that the convergence theory of local losses speaks of, measured on fixed rows between the
/// windows of a run. docs/theory.md says in plain words what each is and which reading was chosen.
///
/// With theta_k^t the weights of stage k after t windows, h_{k-1}^t what it then receives for the probe rows,
/// p_k^t its readout of them and q = p_{k-1}^t that of what it receives:
///
///   R_k^t       = the stage's local loss as it is trained, L_k(theta_k^t, h_{k-1}^t), averaged over the rows
///   target      p*_k = normalised l^alpha q^(1 - alpha), the exact minimiser of alpha KL(p || l) +
///               (1 - alpha) KL(p || q); l: the smoothed label. A stage whose loss has no term in q: p*_k = l
///   delta_k^t   = mean over the rows of KL(p_k^t || p*_k^t)
///   descent_k^t = L_k(theta_k^t, h_{k-1}^(t-1)) - L_k(theta_k^(t-1), h_{k-1}^(t-1)): its own step
///   drift_k^t   = L_k(theta_k^t, h_{k-1}^t) - L_k(theta_k^t, h_{k-1}^(t-1)): the steps of the stages before
///
/// so that R_k^t - R_k^(t-1) = descent_k^t + drift_k^t.

#include <memory>
#include <vector>

#include "tensors/base/entry.hpp"
#include "tensors/base/memory_account.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/training/settings.hpp"
#include "tensors/training/stage_backend.hpp"

namespace zerolock {

/// One stage after some windows; nats. Rows are averaged within a micro-batch, then over micro-batches, as
/// training does.
struct StageTheory {
  double loss = 0;             // R_k^t
  double gradient_norm = 0;    // of R_k^t with respect to the stage's own weights
  double target_distance = 0;  // delta_k^t
  // Against the measurement before; 0 in the first.
  double readout_change = 0;  // mean of KL(p_k^t || p_k^(t-1)): how far what stage k + 1 compares with moved
  double descent = 0;
  double drift = 0;  // 0 for the first stage, which receives the same tokens always
};

/// All stages.
struct TheoryPoint {
  std::vector<StageTheory> stages;

  /// R^t: the mean over the stages; likewise the others.
  [[nodiscard]] double loss() const;
  /// Of R^t with respect to all weights that are trained, each stage's loss by its own alone.
  [[nodiscard]] double gradient_norm() const;
  [[nodiscard]] double target_distance() const;
  [[nodiscard]] double readout_change() const;
  [[nodiscard]] double descent() const;
  [[nodiscard]] double drift() const;
};

/// Log probabilities [n, outputs], fp64, normalised: alpha log l + (1 - alpha) log q up to a constant, with
/// l = (1 - smoothing) onehot(target) + smoothing / outputs. `outputs_of_targets` [n]; log_q [n, outputs]
/// fp64, or undefined for alpha 1.
at::Tensor log_geometric_target(const at::Tensor& log_q, const std::vector<std::int64_t>& outputs_of_targets,
                                std::int64_t outputs, double alpha, double smoothing);

class TheoryProbe {
 public:
  /// `rows`: micro-batches of boundary 0. Throws InputError for what has no such theory here: stages that are
  /// not trained, readouts that are trained along, rows without a supervised token in some micro-batch.
  TheoryProbe(std::shared_ptr<const ModelFiles> model, const std::vector<LayerRange>& partition,
              const TrainingSettings& settings, std::vector<Entry> rows);
  ~TheoryProbe();
  TheoryProbe(const TheoryProbe&) = delete;
  TheoryProbe& operator=(const TheoryProbe&) = delete;

  /// Measures the stages in these states, first to last, and remembers what the next measurement is compared
  /// with. Costs two forward and backward passes over the probe rows.
  TheoryPoint measure(const std::vector<StageState>& states);

 private:
  class Stage;
  /// Of all stages: each keeps what the one before it sent, which goes back to the account it was taken from.
  MemoryAccount account_;
  std::vector<Entry> rows_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace zerolock
