#pragma once
/// A model with the adapter that was trained for it, ready for evaluation and generation.

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/command/opened_model.hpp"
#include "tensors/files/adapter_files.hpp"
#include "tensors/model/causal_model.hpp"

namespace zerolock {

/// Makes as many equal models as there are threads; weights and adapter are shared. Thread-safe.
class AdaptedModel {
 public:
  /// Opens model, tokenizer and adapter. Throws InputError if one is broken or they do not fit.
  AdaptedModel(const std::filesystem::path& model, const std::optional<std::filesystem::path>& adapter);

  [[nodiscard]] const OpenedModel& opened() const { return opened_; }
  [[nodiscard]] const ModelConfig& config() const { return opened_.files->config(); }
  [[nodiscard]] std::unique_ptr<CausalModel> make() const;

 private:
  OpenedModel opened_;
  std::optional<Adapter> adapter_;
};

}  // namespace zerolock
