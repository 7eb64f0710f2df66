#include "transport/entry_frame.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tensors/base/error.hpp"
#include "transport/packed_numbers.hpp"
#include "transport/tensor_payload.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {

namespace {

/// What a payload holds: token ids, or a hidden state in a wire type (the same numbers).
enum class PayloadKind : std::uint8_t { token_ids = 0, fp32, bf16, int8 };
static_assert(static_cast<int>(PayloadKind::fp32) == static_cast<int>(WireType::fp32) &&
              static_cast<int>(PayloadKind::bf16) == static_cast<int>(WireType::bf16) &&
              static_cast<int>(PayloadKind::int8) == static_cast<int>(WireType::int8));

constexpr std::uint64_t number_max = std::uint64_t{1} << 62;
constexpr std::int64_t scale_bytes = 4;

// -- the layout ------------------------------------------------------------------------------------------

/// Sequences as their lengths; supervised rows as runs: rows left out, then rows taken, and so on.
void write_layout(WireWriter& writer, const MicroBatchLayout& layout) {
  std::vector<std::int64_t> lengths;
  for (std::size_t s = 1; s < layout.sequence_offsets.size(); ++s) {
    lengths.push_back(layout.sequence_offsets[s] - layout.sequence_offsets[s - 1]);
  }
  std::vector<std::int64_t> gaps;
  std::vector<std::int64_t> runs;
  std::int64_t next_row = 0;
  for (const std::int64_t row : layout.supervised_rows) {
    if (runs.empty() || row != next_row) {
      gaps.push_back(row - next_row);
      runs.push_back(0);
    }
    ++runs.back();
    next_row = row + 1;
  }
  write_varint(writer, lengths.size());
  write_packed(writer, lengths);
  write_varint(writer, runs.size());
  write_packed(writer, gaps);
  write_packed(writer, runs);
  write_packed(writer, layout.targets);
}

void read_sequences(WireReader& reader, const EntryLimits& limits, MicroBatchLayout& layout) {
  const std::uint64_t sequences = read_varint(reader, static_cast<std::uint64_t>(limits.sequences_max));
  for (const std::int64_t length : read_packed(reader, sequences, limits.rows_max)) {
    if (length == 0) reader.fail("a sequence without rows");
    const std::int64_t rows = layout.rows() + length;
    if (rows > limits.rows_max) reader.fail("more than " + std::to_string(limits.rows_max) + " rows");
    layout.sequence_offsets.push_back(rows);
  }
}

void read_supervision(WireReader& reader, const EntryLimits& limits, MicroBatchLayout& layout) {
  const std::uint64_t run_count = read_varint(reader, static_cast<std::uint64_t>(layout.rows()));
  const std::vector<std::int64_t> gaps = read_packed(reader, run_count, layout.rows());
  const std::vector<std::int64_t> runs = read_packed(reader, run_count, layout.rows());
  std::int64_t row = 0;
  for (std::size_t i = 0; i < run_count; ++i) {
    row += gaps[i];
    if (runs[i] == 0 || runs[i] > layout.rows() - row) {
      reader.fail("supervised rows outside of the micro-batch");
    }
    for (const std::int64_t end = row + runs[i]; row < end; ++row) layout.supervised_rows.push_back(row);
  }
  if (layout.supervised_rows.empty()) return;
  if (limits.vocabulary <= 0) reader.fail("targets where there is no vocabulary");
  layout.targets = read_packed(reader, layout.supervised_rows.size(), limits.vocabulary - 1);
}

std::shared_ptr<const MicroBatchLayout> read_layout(WireReader& reader, const EntryLimits& limits) {
  auto layout = std::make_shared<MicroBatchLayout>();
  read_sequences(reader, limits, *layout);
  read_supervision(reader, limits, *layout);
  layout->check();
  return layout;
}

// -- the payload -----------------------------------------------------------------------------------------

/// [rows, width] -> bytes: fp32 scales [rows], then int8 [rows, width]. A row with a number that is not
/// finite gets a scale that is not finite, so that it is not finite again when it is read.
at::Tensor quantized(const at::Tensor& state) {
  const at::Tensor values = state.to(at::kFloat);
  const std::int64_t rows = values.size(0);
  const at::Tensor scales = values.size(1) == 0 ? at::zeros({rows}) : values.abs().amax(1) / 127.0;
  const at::Tensor divisors = at::where(scales > 0, scales, at::ones_like(scales)).unsqueeze(1);
  const at::Tensor levels = (values / divisors).nan_to_num(0, 127, -127).round().clamp(-127, 127);
  at::Tensor bytes = at::empty({rows * (scale_bytes + values.size(1))}, at::kByte);
  bytes.narrow(0, 0, rows * scale_bytes).view(at::kFloat).copy_(scales);
  bytes.narrow(0, rows * scale_bytes, values.numel()).view(at::kChar).copy_(levels.reshape({-1}));
  return bytes;
}

at::Tensor dequantized(const Payload& payload, std::int64_t rows, std::int64_t width) {
  const auto scales_end = static_cast<std::size_t>(rows * scale_bytes);
  if (payload.size() < scales_end) throw WireError("the payload ends within its scales");
  const Payload scales{payload.bytes.first(scales_end), payload.owner};
  const Payload levels{payload.bytes.subspan(scales_end), payload.owner};
  return tensor_over(levels, {rows, width}, at::kChar).to(at::kFloat) *
         tensor_over(scales, {rows, 1}, at::kFloat);
}

at::Tensor wire_state(const at::Tensor& state, WireType type) {
  switch (type) {
    case WireType::fp32:
      return state.to(at::kFloat).contiguous();
    case WireType::bf16:
      return state.to(at::kBFloat16).contiguous();
    case WireType::int8:
      return quantized(state);
  }
  ZEROLOCK_INVARIANT(false, "a known wire type");
  return {};
}

at::Tensor read_token_ids(const Frame& frame, std::int64_t rows, const EntryLimits& limits) {
  at::Tensor ids = tensor_over(frame.payload, {rows}, at::kInt).to(at::kLong);
  if (rows > 0 &&
      (ids.min().item<std::int64_t>() < 0 || ids.max().item<std::int64_t>() >= limits.vocabulary)) {
    throw WireError("entry: a token id outside of the vocabulary of " + std::to_string(limits.vocabulary));
  }
  return ids;
}

at::Tensor read_state(const Frame& frame, PayloadKind kind, std::int64_t rows, const EntryLimits& limits) {
  if (kind == PayloadKind::int8) {
    return dequantized(frame.payload, rows, limits.width).to(limits.compute_type);
  }
  const at::ScalarType type = kind == PayloadKind::fp32 ? at::kFloat : at::kBFloat16;
  return tensor_over(frame.payload, {rows, limits.width}, type).to(limits.compute_type);
}

}  // namespace

std::string_view to_string(WireType type) {
  switch (type) {
    case WireType::fp32:
      return "fp32";
    case WireType::bf16:
      return "bf16";
    case WireType::int8:
      return "int8";
  }
  return "unknown";
}

WireType exact_wire_type(at::ScalarType compute_type) {
  return compute_type == at::kBFloat16 ? WireType::bf16 : WireType::fp32;
}

WireType parse_wire_type(std::string_view text, std::string_view where) {
  for (const WireType type : {WireType::fp32, WireType::bf16, WireType::int8}) {
    if (to_string(type) == text) return type;
  }
  throw InputError(where, "'" + std::string(text) + "' is no type of the wire; allowed are fp32, bf16, int8");
}

std::uint32_t entry_metadata_bytes_max(const EntryLimits& limits) {
  // Eight bytes for each number of the four lists, and what stands before them.
  return static_cast<std::uint32_t>(256 + 8 * (limits.sequences_max + 3 * limits.rows_max));
}

std::uint64_t entry_payload_bytes_max(const EntryLimits& limits) {
  const std::int64_t row_bytes =
      limits.width == 0 ? 4 : std::max(4 * limits.width, scale_bytes + limits.width);
  return static_cast<std::uint64_t>(limits.rows_max * row_bytes);
}

Frame entry_frame(std::uint64_t session, const Entry& entry, WireType type) {
  ZEROLOCK_INVARIANT(entry.layout != nullptr && entry.payload.defined(), "an entry is whole");
  const std::int64_t rows = entry.layout->rows();
  const bool is_state = entry.payload.dim() == 2;
  ZEROLOCK_INVARIANT(entry.payload.dim() >= 1 && entry.payload.size(0) == rows, "a row for each row");
  ZEROLOCK_INVARIANT(is_state || (entry.payload.dim() == 1 && entry.payload.scalar_type() == at::kLong),
                     "token ids, or a hidden state");
  WireWriter writer;
  write_varint(writer, session);
  write_varint(writer, entry.position.window.value);
  write_varint(writer, entry.position.micro_batch);
  write_varint(writer, entry.producer.value);
  writer(is_state ? static_cast<PayloadKind>(type) : PayloadKind::token_ids);
  write_varint(writer, is_state ? static_cast<std::uint64_t>(entry.payload.size(1)) : 0);
  write_layout(writer, *entry.layout);
  const at::Tensor payload =
      is_state ? wire_state(entry.payload, type) : entry.payload.to(at::kInt).contiguous();
  return {FrameType::entry, writer.take(), payload_of(payload)};
}

ReceivedEntry read_entry(const Frame& frame, const EntryLimits& limits) {
  ZEROLOCK_INVARIANT(frame.type == FrameType::entry, "an entry frame");
  WireReader reader(frame.metadata, "entry");
  ReceivedEntry received;
  received.session = read_varint(reader, number_max);
  Entry& entry = received.entry;
  entry.position.window.value = read_varint(reader, number_max);
  entry.position.micro_batch = read_varint(reader, number_max);
  entry.producer.value = read_varint(reader, number_max);
  PayloadKind kind{};
  reader(kind);
  check_enumeration(reader, kind, PayloadKind::token_ids, PayloadKind::int8, "kind of payload");
  if ((kind == PayloadKind::token_ids) != (limits.width == 0)) {
    reader.fail(limits.width == 0 ? "a hidden state where token ids belong"
                                  : "token ids where a hidden state belongs");
  }
  const std::uint64_t width = read_varint(reader, number_max);
  if (width != static_cast<std::uint64_t>(limits.width)) {
    reader.fail("rows of width " + std::to_string(width) + " instead of " + std::to_string(limits.width));
  }
  entry.layout = read_layout(reader, limits);
  reader.finish();
  const std::int64_t rows = entry.layout->rows();
  entry.payload = kind == PayloadKind::token_ids ? read_token_ids(frame, rows, limits)
                                                 : read_state(frame, kind, rows, limits);
  return received;
}

}  // namespace zerolock
