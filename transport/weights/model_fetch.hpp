#pragma once
/// Gets what a device needs of a model from the device that has it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "tensors/base/indices.hpp"
#include "tensors/files/model_files.hpp"
#include "transport/network.hpp"

namespace zerolock {

struct ModelFetchOptions {
  /// Where a WeightsServer answers, and as whom to ask; the hello's purpose is weights. The bounds of its
  /// connection are replaced.
  DialOptions dial;
  /// Of the stages that this device hosts; at least one.
  std::vector<LayerRange> layers;
  /// Whether one of them is the first stage.
  bool embeds = false;
  /// Folder of partial models (partial_model.hpp), made if it is missing.
  std::filesystem::path cache;
  /// Requests on their way at once: 1 to weights_requests_max.
  std::size_t window = 4;
  /// After so long without a new part or manifest the fetch is given up.
  std::chrono::milliseconds progress_limit{60000};
  /// Between attempts to connect; doubles from the first wait to the longest.
  std::chrono::milliseconds first_wait{100};
  std::chrono::milliseconds longest_wait{2000};
};

/// Called in the fetching thread. Either may be left empty.
struct ModelFetchEvents {
  /// Asked many times a second while the fetch waits, and after each part.
  std::function<bool()> stop_requested;
  /// Bytes of parts in place, and of all parts that are needed: once before the first part is asked for, then
  /// after each part.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

/// Fetches the parts that the cache lacks and opens the model: it holds the tensors of these stages, and its
/// content hash is that of the whole. Parts that the cache has from before are verified first. Blocks, over
/// broken connections too: it dials again and goes on with what is missing. Null if `stop_requested` said so;
/// what was fetched stays in the cache.
///
/// Throws RunError of one line: nothing came within the limit (with the last cause), a refusal, a certificate
/// that is wrong, a part whose bytes were wrong twice (with file and offset), a manifest that makes no sense,
/// a disk that is full. Throws InputError if the files are not a model.
std::shared_ptr<const ModelFiles> fetch_model(Network& network, ModelFetchOptions options,
                                              ModelFetchEvents events);

}  // namespace zerolock
