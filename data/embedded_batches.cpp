#include "data/embedded_batches.hpp"

#include <utility>

#include "tensors/model/chunk.hpp"

namespace zerolock {
namespace {

class EmbeddedBatches final : public MicroBatchProvider {
 public:
  EmbeddedBatches(std::shared_ptr<const MicroBatchProvider> batches, std::shared_ptr<const ModelFiles> model,
                  at::ScalarType compute_type)
      : batches_(std::move(batches)),
        model_(std::move(model)),
        embedding_(model_->tensor("model.embed_tokens.weight")),
        compute_type_(compute_type) {}

  [[nodiscard]] WindowIndex last_window() const override { return batches_->last_window(); }
  [[nodiscard]] std::uint64_t micro_batches(WindowIndex window) const override {
    return batches_->micro_batches(window);
  }
  [[nodiscard]] Entry make(const BatchPosition& position) const override {
    Entry entry = batches_->make(position);
    entry.payload = embed(embedding_, entry.payload, compute_type_);
    return entry;
  }

 private:
  std::shared_ptr<const MicroBatchProvider> batches_;
  std::shared_ptr<const ModelFiles> model_;  // its file is mapped under the embedding
  StoredTensor embedding_;
  at::ScalarType compute_type_;
};

}  // namespace

std::shared_ptr<const MicroBatchProvider> make_embedded_batches(
    std::shared_ptr<const MicroBatchProvider> batches, const std::shared_ptr<const ModelFiles>& model,
    at::ScalarType compute_type) {
  return std::make_shared<const EmbeddedBatches>(std::move(batches), model, compute_type);
}

}  // namespace zerolock
