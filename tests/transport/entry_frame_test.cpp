#include "transport/entry_frame.hpp"

#include <ATen/ATen.h>

#include <random>

#include "tensors/base/error.hpp"
#include "transport/tensor_payload.hpp"
#include "transport/wire_archive.hpp"

// After LibTorch, whose CHECK would replace Catch's.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

std::shared_ptr<const MicroBatchLayout> make_layout(std::vector<std::int64_t> offsets,
                                                    std::vector<std::int64_t> supervised,
                                                    std::vector<std::int64_t> targets) {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = std::move(offsets);
  layout->supervised_rows = std::move(supervised);
  layout->targets = std::move(targets);
  return layout;
}

Entry make_entry(std::shared_ptr<const MicroBatchLayout> layout, at::Tensor payload) {
  return {{WindowIndex{7}, 3}, Incarnation{2}, std::move(layout), std::move(payload)};
}

/// b sequences of `length` rows, of which the last `supervised` are supervised, with targets out of few.
std::shared_ptr<const MicroBatchLayout> classification(std::int64_t b, std::int64_t length,
                                                       std::int64_t supervised) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> targets;
  for (std::int64_t s = 0; s < b; ++s) {
    const std::int64_t rows_here = length - (s * 7) % 40;
    offsets.push_back(offsets.back() + rows_here);
    for (std::int64_t i = supervised; i > 0; --i) {
      rows.push_back(offsets.back() - i);
      targets.push_back(i == 1 ? 2 : 1000 + 9000 * ((s * 5 + i) % 4));
    }
  }
  return make_layout(offsets, rows, targets);
}

const EntryLimits state_limits{2048, 64, 16, 50000, at::kFloat};
const EntryLimits token_limits{2048, 64, 0, 50000, at::kFloat};

bool same_layout(const MicroBatchLayout& left, const MicroBatchLayout& right) {
  return left.sequence_offsets == right.sequence_offsets && left.supervised_rows == right.supervised_rows &&
         left.targets == right.targets;
}

}  // namespace

TEST_CASE("entries come back with their layout", "[entry-frame]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> offsets{0};
    const std::size_t sequences = random() % 10;
    for (std::size_t s = 0; s < sequences; ++s) {
      offsets.push_back(offsets.back() + 1 + static_cast<std::int64_t>(random() % 60));
    }
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> targets;
    const std::uint64_t sparse = 1 + random() % 5;
    for (std::int64_t row = 0; row < offsets.back(); ++row) {
      if (random() % sparse != 0) continue;
      rows.push_back(row);
      targets.push_back(static_cast<std::int64_t>(random() % 50000));
    }
    const auto layout = make_layout(offsets, rows, targets);
    const at::Tensor state = at::randn({layout->rows(), 16});
    const Frame frame = entry_frame(99, make_entry(layout, state), WireType::fp32);
    CHECK(frame.metadata.size() <= entry_metadata_bytes_max(state_limits));
    CHECK(frame.payload.size() == static_cast<std::size_t>(layout->rows() * 16 * 4));
    const ReceivedEntry received = read_entry(frame, state_limits);
    CHECK(received.session == 99);
    CHECK(received.entry.position == BatchPosition{WindowIndex{7}, 3});
    CHECK(received.entry.producer == Incarnation{2});
    CHECK(same_layout(*received.entry.layout, *layout));
    CHECK(at::equal(received.entry.payload, state));
  }
}

TEST_CASE("fp32 states are copied neither on the way out nor on the way in", "[entry-frame]") {
  const auto layout = classification(2, 50, 1);
  const at::Tensor state = at::randn({layout->rows(), 16});
  const Frame frame = entry_frame(1, make_entry(layout, state), WireType::fp32);
  CHECK(static_cast<const void*>(frame.payload.bytes.data()) == state.data_ptr());
  const at::Tensor again = read_entry(frame, state_limits).entry.payload;
  CHECK(again.data_ptr() == state.data_ptr());
}

TEST_CASE("a received tensor keeps its memory", "[entry-frame]") {
  at::Tensor tensor;
  std::weak_ptr<void> owner;
  {
    const PayloadMemory memory = allocate_payload(64);
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
    owner = memory.owner;
    tensor = tensor_over({memory.bytes, memory.owner}, {4, 4}, at::kFloat);
  }
  CHECK_FALSE(owner.expired());
  CHECK(tensor.sum().item<float>() == 0);
  tensor = at::Tensor();
  CHECK(owner.expired());
}

TEST_CASE("bf16 and int8 lose what they must and no more", "[entry-frame]") {
  const auto layout = classification(4, 60, 2);
  const at::Tensor state = at::randn({layout->rows(), 16}) * 3;
  const at::Tensor row_max = state.abs().amax(1, true);
  SECTION("bf16") {
    const Frame frame = entry_frame(1, make_entry(layout, state), WireType::bf16);
    CHECK(frame.payload.size() == static_cast<std::size_t>(layout->rows() * 16 * 2));
    const at::Tensor again = read_entry(frame, state_limits).entry.payload;
    CHECK(at::equal(again, state.to(at::kBFloat16).to(at::kFloat)));
  }
  SECTION("int8: half a level of its row at most") {
    const Frame frame = entry_frame(1, make_entry(layout, state), WireType::int8);
    CHECK(frame.payload.size() == static_cast<std::size_t>(layout->rows() * (16 + 4)));
    const at::Tensor again = read_entry(frame, state_limits).entry.payload;
    CHECK(((again - state).abs() <= row_max / 127 * 0.5001).all().item<bool>());
    CHECK(at::allclose(again.abs().amax(1, true), row_max));
  }
  SECTION("int8: rows of zeros and rows that are not finite stay so") {
    at::Tensor odd = state.clone();
    odd[0].zero_();
    odd[1][3] = std::numeric_limits<float>::quiet_NaN();
    odd[2][0] = std::numeric_limits<float>::infinity();
    const at::Tensor again =
        read_entry(entry_frame(1, make_entry(layout, odd), WireType::int8), state_limits).entry.payload;
    CHECK(at::equal(again[0], at::zeros({16})));
    CHECK_FALSE(again[1].isfinite().all().item<bool>());
    CHECK_FALSE(again[2].isfinite().all().item<bool>());
    CHECK(again.narrow(0, 3, 10).isfinite().all().item<bool>());
  }
  SECTION("twice through the wire changes nothing more") {
    for (const WireType type : {WireType::fp32, WireType::bf16}) {
      const auto once = read_entry(entry_frame(1, make_entry(layout, state), type), state_limits).entry;
      const auto twice = read_entry(entry_frame(1, once, type), state_limits).entry;
      CHECK(at::equal(once.payload, twice.payload));
    }
  }
}

TEST_CASE("token ids travel in four bytes", "[entry-frame]") {
  const auto layout = classification(3, 50, 1);
  const at::Tensor ids = at::randint(0, 50000, {layout->rows()}, at::kLong);
  const Frame frame = entry_frame(5, make_entry(layout, ids), WireType::bf16);
  CHECK(frame.payload.size() == static_cast<std::size_t>(layout->rows() * 4));
  CHECK(at::equal(read_entry(frame, token_limits).entry.payload, ids));
  CHECK_THROWS_WITH(read_entry(frame, state_limits), "entry: token ids where a hidden state belongs");
  EntryLimits small = token_limits;
  small.vocabulary = 20000;
  CHECK_THROWS_AS(read_entry(frame, small), WireError);
  const at::Tensor negative = at::full({layout->rows()}, -1, at::kLong);
  CHECK_THROWS_AS(read_entry(entry_frame(5, make_entry(layout, negative), WireType::fp32), token_limits),
                  WireError);
}

TEST_CASE("framing and metadata of a micro-batch stay small", "[entry-frame]") {
  const auto overhead = [](const std::shared_ptr<const MicroBatchLayout>& layout) {
    const Frame frame =
        entry_frame(1000, make_entry(layout, at::zeros({layout->rows(), 16})), WireType::fp32);
    return frame.wire_bytes() - frame.payload.size();
  };
  CHECK(overhead(classification(8, 128, 1)) <= 128);
  CHECK(overhead(classification(8, 128, 3)) <= 128);
  CHECK(overhead(classification(64, 128, 3)) <= 512);
  // Where every row is supervised, its target is information: about sixteen bits of a vocabulary of 50000.
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < 1024; ++row) {
    rows.push_back(row);
    targets.push_back((row * 7919) % 50000);
  }
  const auto dense = make_layout({0, 128, 256, 384, 512, 640, 768, 896, 1024}, rows, targets);
  CHECK(overhead(dense) <= 1024 * 2 + 128);
}

TEST_CASE("entries outside of the limits are refused", "[entry-frame]") {
  const auto layout = classification(4, 60, 2);
  const at::Tensor state = at::randn({layout->rows(), 16});
  const Frame good = entry_frame(1, make_entry(layout, state), WireType::fp32);
  const auto refused_by = [&](EntryLimits limits) { CHECK_THROWS_AS(read_entry(good, limits), WireError); };
  EntryLimits limits = state_limits;
  limits.rows_max = layout->rows() - 1;
  refused_by(limits);
  limits = state_limits;
  limits.sequences_max = 3;
  refused_by(limits);
  limits = state_limits;
  limits.width = 32;
  refused_by(limits);
  limits = state_limits;
  limits.vocabulary = 1000;
  refused_by(limits);
  SECTION("payload of another length") {
    Frame cut = good;
    cut.payload.bytes = cut.payload.bytes.first(cut.payload.size() - 4);
    CHECK_THROWS_AS(read_entry(cut, state_limits), WireError);
  }
  SECTION("metadata cut anywhere") {
    for (std::size_t length = 0; length < good.metadata.size(); ++length) {
      Frame cut = good;
      cut.metadata.resize(length);
      CHECK_THROWS_AS(read_entry(cut, state_limits), WireError);
    }
  }
  SECTION("metadata changed anywhere: an error, or another entry that is sound") {
    const std::uint64_t seed = std::random_device{}();
    INFO("seed=" << seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 3000; ++round) {
      Frame changed = good;
      for (int i = 0; i < 2; ++i) {
        changed.metadata[random() % changed.metadata.size()] = static_cast<std::byte>(random());
      }
      try {
        const ReceivedEntry received = read_entry(changed, state_limits);
        CHECK_NOTHROW(received.entry.layout->check());
        CHECK(received.entry.payload.size(0) == received.entry.layout->rows());
      } catch (const WireError&) {
      }
    }
  }
}

TEST_CASE("wire types have names", "[entry-frame]") {
  CHECK(parse_wire_type("bf16", "--wire") == WireType::bf16);
  CHECK_THROWS_WITH(parse_wire_type("fp16", "--wire"),
                    "--wire: 'fp16' is no type of the wire; allowed are fp32, bf16, int8");
}

TEST_CASE("received payloads are charged to their account", "[entry-frame]") {
  install_memory_accounting();
  MemoryAccount account;
  const PayloadAllocator allocate = accounted_payloads(account);
  {
    const PayloadMemory memory = allocate(1 << 20);
    CHECK(memory.bytes.size() == 1 << 20);
    CHECK(account.current_bytes(MemoryComponent::buffers) >= 1 << 20);
  }
  CHECK(account.current_bytes(MemoryComponent::buffers) == 0);
}

}  // namespace zerolock
