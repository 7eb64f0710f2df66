#include "transport/weights/weights_request.hpp"

#include <algorithm>
#include <utility>

#include "transport/wire_archive.hpp"

namespace zerolock {

template <class Archive>
void serialize(Archive& archive, ManifestRequest& request) {
  archive(request.layers, request.embeds);
}
template <class Archive>
void serialize(Archive& archive, PartRequest& request) {
  archive(request.file, request.offset, request.length);
}

namespace {

enum class RequestKind : std::uint8_t { manifest = 1, part };

}  // namespace

Frame weights_request_frame(const WeightsRequest& request) {
  WireWriter writer;
  if (const auto* manifest = std::get_if<ManifestRequest>(&request)) {
    writer(RequestKind::manifest, *manifest);
  } else {
    writer(RequestKind::part, std::get<PartRequest>(request));
  }
  return {FrameType::request, writer.take(), {}};
}

WeightsRequest read_weights_request(std::span<const std::byte> metadata) {
  WireReader reader(metadata, "request for weights");
  RequestKind kind{};
  reader(kind);
  check_enumeration(reader, kind, RequestKind::manifest, RequestKind::part, "kind of request");
  WeightsRequest request;
  if (kind == RequestKind::manifest) {
    reader(request.emplace<ManifestRequest>());
  } else {
    reader(request.emplace<PartRequest>());
  }
  reader.finish();
  return request;
}

Frame weights_answer_frame(Payload payload) {
  return {FrameType::part, to_wire(std::string()), std::move(payload)};
}

Frame weights_refusal_frame(std::string reason) {
  // The text's length is four bytes.
  if (reason.size() > weights_answer_bytes_max - 4) reason.resize(weights_answer_bytes_max - 4);
  return {FrameType::part, to_wire(reason), {}};
}

std::string read_weights_refusal(std::span<const std::byte> metadata) {
  auto reason = from_wire<std::string>(metadata, "answer about weights");
  std::replace_if(
      reason.begin(), reason.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  return reason;
}

}  // namespace zerolock
