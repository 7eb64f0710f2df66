#pragma once
/// What a device that needs a stage's part of a model asks of the one that has it, and how it is answered.
///
/// A request is a request frame, its answer a part frame: answers come in the order of the requests. A
/// request that cannot be answered gets a refusal, and then the connection closes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tensors/base/indices.hpp"
#include "transport/frame.hpp"

namespace zerolock {

/// The manifest of what a stage of these layers needs; `embeds` for the first stage. Answered by its text.
struct ManifestRequest {
  LayerRange layers;
  bool embeds = false;

  bool operator==(const ManifestRequest&) const = default;
};

/// One part of a manifest. Answered by its bytes.
struct PartRequest {
  std::uint64_t file = 0;  // index into the manifest's files
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  bool operator==(const PartRequest&) const = default;
};

using WeightsRequest = std::variant<ManifestRequest, PartRequest>;

/// Bounds of the metadata of both frames.
inline constexpr std::uint32_t weights_request_bytes_max = 32;
inline constexpr std::uint32_t weights_answer_bytes_max = 1024;
/// Requests of a connection that may wait for their answers. One more closes it.
inline constexpr std::size_t weights_requests_max = 8;

Frame weights_request_frame(const WeightsRequest& request);
/// Throws WireError for bytes that are no request.
WeightsRequest read_weights_request(std::span<const std::byte> metadata);

/// The answer to a request.
Frame weights_answer_frame(Payload payload);
/// Instead of an answer; a long reason is cut.
Frame weights_refusal_frame(std::string reason);
/// The reason of a refusal, fit for a line of a log; empty for an answer. Throws WireError.
std::string read_weights_refusal(std::span<const std::byte> metadata);

}  // namespace zerolock
