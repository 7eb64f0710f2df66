#include "transport/weights/model_fetch.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tensors/base/error.hpp"
#include "tensors/files/model_manifest.hpp"
#include "tensors/files/partial_model.hpp"
#include "transport/weights/weights_client.hpp"

namespace zerolock {
namespace {

using Clock = std::chrono::steady_clock;

/// Thrown to leave a fetch that was told to stop.
struct Stopped {};

/// One request for each layer: its parts are hashed when they are first asked for, so every answer to a long
/// model is a sign of progress. A layer's manifest also names what all stages need, which is the same each
/// time.
std::vector<WeightsRequest> manifest_requests(const std::vector<LayerRange>& layers, bool embeds) {
  std::vector<WeightsRequest> requests;
  for (const LayerRange& range : layers) {
    ZEROLOCK_INVARIANT(range.first >= 0 && range.first < range.last, "a stage has layers");
    for (std::int64_t layer = range.first; layer < range.last; ++layer) {
      requests.emplace_back(ManifestRequest{{layer, layer + 1}, embeds && requests.empty()});
    }
  }
  ZEROLOCK_INVARIANT(!requests.empty(), "a device that fetches a model has stages");
  return requests;
}

class ModelFetch {
 public:
  ModelFetch(Network& network, ModelFetchOptions options, ModelFetchEvents events)
      : network_(network),
        options_(std::move(options)),
        events_(std::move(events)),
        manifest_requests_(manifest_requests(options_.layers, options_.embeds)),
        wait_(options_.first_wait),
        progress_at_(Clock::now()) {
    ZEROLOCK_INVARIANT(options_.window > 0 && options_.window <= weights_requests_max,
                       "a server answers so many requests");
  }

  std::shared_ptr<const ModelFiles> run() {
    try {
      while (!attempt()) wait_to_dial();
    } catch (const Stopped&) {
      return nullptr;
    }
    return partial_->open();
  }

 private:
  /// Over one connection. True when no part is missing.
  bool attempt() {
    try {
      WeightsClient client(network_, options_.dial, [this] { check_waiting(); });
      fetch_manifests(client);
      if (!partial_) begin_parts();
      while (!partial_->missing().empty()) fetch_parts(client);
      return true;
    } catch (const ConnectionLost& lost) {
      last_cause_ = lost.what();
      return false;
    }
  }

  void fetch_manifests(WeightsClient& client) {
    const std::vector<WeightsRequest> left(
        manifest_requests_.begin() + static_cast<std::ptrdiff_t>(manifests_taken_), manifest_requests_.end());
    exchange(client, left, [&](std::size_t, const Payload& payload) {
      const std::string_view text(reinterpret_cast<const char*>(payload.bytes.data()), payload.size());
      try {
        ModelManifest manifest = model_manifest_from_text("the manifest", text);
        manifest_ = manifest_ ? merge_model_manifests("the manifests", *manifest_, manifest) : manifest;
      } catch (const InputError& error) {
        throw RunError(client.peer_text() + ": " + error.what());
      }
      ++manifests_taken_;
      made_progress();
    });
  }

  void begin_parts() {
    partial_ = std::make_unique<PartialModel>(options_.cache, *manifest_);
    if (partial_->missing().size() < manifest_->parts.size()) partial_->verify();
    bytes_all_ = manifest_->bytes();
    bytes_done_ = bytes_all_;
    for (const std::size_t part : partial_->missing()) bytes_done_ -= manifest_->parts[part].length;
    made_progress();
    report();
  }

  /// Asks once for every part that is missing.
  void fetch_parts(WeightsClient& client) {
    const std::vector<std::size_t> missing = partial_->missing();
    std::vector<WeightsRequest> requests;
    requests.reserve(missing.size());
    for (const std::size_t index : missing) {
      const ModelPart& part = manifest_->parts[index];
      requests.emplace_back(PartRequest{part.file, part.offset, part.length});
    }
    exchange(client, requests, [&](std::size_t number, const Payload& payload) {
      take_part(client, missing[number], payload.bytes);
      check_stop();
    });
  }

  void take_part(const WeightsClient& client, std::size_t index, std::span<const std::byte> bytes) {
    try {
      partial_->put(index, bytes);
    } catch (const InputError& error) {
      // Once may be chance; it stays missing and is asked for again.
      if (!wrong_once_.insert(index).second) throw RunError(client.peer_text() + ": " + error.what());
      return;
    }
    bytes_done_ += manifest_->parts[index].length;
    made_progress();
    report();
  }

  /// Makes requests, a few ahead of the answers, and takes the answers in order.
  void exchange(WeightsClient& client, const std::vector<WeightsRequest>& requests,
                const std::function<void(std::size_t number, const Payload& payload)>& take) const {
    std::size_t asked = 0;
    for (std::size_t taken = 0; taken < requests.size(); ++taken) {
      for (; asked < requests.size() && asked < taken + options_.window; ++asked) client.ask(requests[asked]);
      take(taken, client.answer());
    }
  }

  void wait_to_dial() {
    // Whether to stop can only be asked, so the wait goes in short steps.
    constexpr std::chrono::milliseconds step{50};
    const Clock::time_point until = Clock::now() + wait_;
    wait_ = std::min(options_.longest_wait, wait_ * 2);
    for (check_waiting(); Clock::now() < until; check_waiting()) {
      std::this_thread::sleep_for(std::min<Clock::duration>(step, until - Clock::now()));
    }
  }

  void made_progress() {
    progress_at_ = Clock::now();
    wait_ = options_.first_wait;
    last_cause_ = "requests were not answered";
  }

  void check_stop() const {
    if (events_.stop_requested && events_.stop_requested()) throw Stopped{};
  }

  void check_waiting() const {
    check_stop();
    if (Clock::now() - progress_at_ < options_.progress_limit) return;
    throw RunError(options_.dial.address.text() + ": nothing of the model came for " +
                   std::to_string(options_.progress_limit.count()) + " ms: " + last_cause_);
  }

  void report() const {
    if (events_.progress) events_.progress(bytes_done_, bytes_all_);
  }

  Network& network_;
  const ModelFetchOptions options_;
  const ModelFetchEvents events_;
  const std::vector<WeightsRequest> manifest_requests_;
  std::size_t manifests_taken_ = 0;
  std::optional<ModelManifest> manifest_;  // of the layers so far
  std::unique_ptr<PartialModel> partial_;  // once the manifest is whole
  std::set<std::size_t> wrong_once_;       // parts whose bytes were wrong
  std::uint64_t bytes_done_ = 0;
  std::uint64_t bytes_all_ = 0;
  std::chrono::milliseconds wait_;
  Clock::time_point progress_at_;
  std::string last_cause_ = "no connection was made";
};

}  // namespace

std::shared_ptr<const ModelFiles> fetch_model(Network& network, ModelFetchOptions options,
                                              ModelFetchEvents events) {
  return ModelFetch(network, std::move(options), std::move(events)).run();
}

}  // namespace zerolock
