#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "tensors/base/error.hpp"
#include "tensors/files/block_formats.hpp"
#include "tests/tensors/files_formats.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

/// For the two blocks of test::golden_blocks: sum, sum of squares, and the elements 0, 1, 15, 16, 31, n/2,
/// n/2 + 17 and n - 1, as the reference Python package gguf 0.19 expands them.
struct Golden {
  StorageFormat format;
  double sum;
  double sum_of_squares;
  std::vector<float> values;
};
const std::vector<Golden> goldens{
    {StorageFormat::q8_0,
     -13.7744140625,
     152.40228721499443,
     {1.389739990234375F, -0.873199462890625F, 1.266754150390625F, -1.561920166015625F, -1.291351318359375F,
      -1.99237060546875F, -3.07464599609375F, 2.97625732421875F}},
    {StorageFormat::q4_0,
     0.356658935546875,
     0.4533117385581136,
     {-0.086090087890625F, 0.012298583984375F, -0.012298583984375F, -0.012298583984375F, -0.02459716796875F,
      0.17218017578125F, -0.1475830078125F, 0.02459716796875F}},
    {StorageFormat::q4_1,
     5.228240966796875,
     0.9467541901394725,
     {0.138885498046875F, -0.008697509765625F, 0.065093994140625F, -0.04559326171875F, 0.077392578125F,
      -0.01739501953125F, 0.17938232421875F, 0.0072021484375F}},
    {StorageFormat::q5_0,
     1.242156982421875,
     1.8481868980452418,
     {0.061492919921875F, -0.135284423828125F, 0.036895751953125F, 0.17218017578125F, -0.17218017578125F,
      0.17218017578125F, -0.31976318359375F, 0.31976318359375F}},
    {StorageFormat::q5_1,
     17.133270263671875,
     6.6591169172897935,
     {0.188079833984375F, 0.335662841796875F, 0.015899658203125F, 0.335662841796875F, 0.114288330078125F,
      0.57293701171875F, 0.13018798828125F, 0.37615966796875F}},
    {StorageFormat::q4_k,
     3775.2353515625,
     39406.65794750303,
     {4.354522705078125F, 3.616607666015625F, 4.723480224609375F, 4.354522705078125F, 4.723480224609375F,
      8.66119384765625F, 5.61114501953125F, 10.383544921875F}},
    {StorageFormat::q6_k,
     95.535400390625,
     354590.30494715273,
     {-17.599273681640625F, -14.991973876953125F, 1.955474853515625F, 39.515350341796875F,
      -4.390594482421875F, -0.36895751953125F, -7.05938720703125F, 10.1832275390625F}},
};

std::vector<float> expanded(StorageFormat format, const std::string& bytes) {
  const auto blocks = static_cast<std::int64_t>(bytes.size() / block_bytes(format));
  std::vector<float> values(static_cast<std::size_t>(blocks * block_elements(format)));
  expand_blocks(format, reinterpret_cast<const std::byte*>(bytes.data()),
                static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

std::string quantised(StorageFormat format, const std::vector<float>& values) {
  std::string bytes(values.size() / static_cast<std::size_t>(block_elements(format)) * block_bytes(format),
                    '\0');
  quantise_blocks(format, values.data(), static_cast<std::int64_t>(values.size()),
                  reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

std::vector<float> random_values(std::int64_t count, double scale) {
  const at::Tensor values = at::randn({count}, at::make_generator<at::CPUGeneratorImpl>(7)) * scale;
  const float* data = values.data_ptr<float>();
  return {data, data + count};
}

TEST_CASE("block formats expand to the reference implementation's numbers", "[formats]") {
  for (const Golden& golden : goldens) {
    INFO(to_string(golden.format));
    const std::vector<float> values = expanded(golden.format, test::golden_blocks(golden.format));
    double sum = 0, sum_of_squares = 0;
    for (const double value : values) {
      sum += value;
      sum_of_squares += value * value;
    }
    REQUIRE(sum == Approx(golden.sum).epsilon(1e-12));
    REQUIRE(sum_of_squares == Approx(golden.sum_of_squares).epsilon(1e-12));
    const std::size_t n = values.size();
    const std::vector<std::size_t> places{0, 1, 15, 16, 31, n / 2, n / 2 + 17, n - 1};
    for (std::size_t i = 0; i < places.size(); ++i) REQUIRE(values[places[i]] == golden.values[i]);
  }
}

TEST_CASE("block formats need no alignment", "[formats]") {
  for (const Golden& golden : goldens) {
    const std::string bytes = test::golden_blocks(golden.format);
    const std::string moved = "x" + bytes;
    std::vector<float> values(expanded(golden.format, bytes).size());
    expand_blocks(golden.format, reinterpret_cast<const std::byte*>(moved.data() + 1),
                  static_cast<std::int64_t>(values.size()), values.data());
    REQUIRE(values == expanded(golden.format, bytes));
  }
}

TEST_CASE("every half and every bfloat16 expands as LibTorch converts it", "[formats]") {
  std::string bytes;
  for (int bits = 0; bits < 65536; ++bits) bytes += test::raw(static_cast<std::uint16_t>(bits));
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const std::vector<float> values = expanded(storage_format_of(type), bytes);
    const at::Tensor stored_values = at::from_blob(bytes.data(), {65536}, at::TensorOptions().dtype(type));
    const at::Tensor reference = stored_values.to(at::kFloat);
    const float* expected = reference.data_ptr<float>();
    std::size_t equal = 0;
    for (std::size_t i = 0; i < 65536; ++i) {
      equal += std::isnan(expected[i]) ? std::isnan(values[i]) : values[i] == expected[i];
    }
    REQUIRE(equal == 65536);
  }
}

TEST_CASE("a block's scale may be subnormal, infinite or NaN", "[formats]") {
  for (const std::uint16_t bits : {0x0001, 0x03ff, 0x0400, 0x8001, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000}) {
    std::string block(34, '\x01');
    std::memcpy(block.data(), &bits, sizeof bits);
    const float expected = static_cast<float>(at::Half(bits, at::Half::from_bits()));
    const float value = expanded(StorageFormat::q8_0, block)[5];
    REQUIRE((std::isnan(expected) ? std::isnan(value) : value == expected));
  }
}

TEST_CASE("quantisation errs by at most half a step", "[formats]") {
  constexpr double half_rounding = 1.0 / 2048;  // of the scales, to eleven bits
  for (const double magnitude : {1e-3, 1.0, 300.0}) {
    const std::vector<float> values = random_values(64 * 32, magnitude);
    const std::vector<float> eight = expanded(StorageFormat::q8_0, quantised(StorageFormat::q8_0, values));
    const std::vector<float> four = expanded(StorageFormat::q4_1, quantised(StorageFormat::q4_1, values));
    const std::vector<float> brain = expanded(StorageFormat::bf16, quantised(StorageFormat::bf16, values));
    for (std::size_t block = 0; block < values.size(); block += 32) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(block);
      const auto [low, high] = std::minmax_element(first, first + 32);
      const double largest = std::max(std::abs(*low), std::abs(*high));
      const double eight_step = largest / 127, four_step = (*high - *low) / 15;
      for (std::size_t i = block; i < block + 32; ++i) {
        // 6e-8 is the step of subnormal halves, in which small scales are kept.
        REQUIRE(std::abs(eight[i] - values[i]) <= eight_step * 0.5001 + largest * half_rounding + 127 * 6e-8);
        REQUIRE(std::abs(four[i] - values[i]) <=
                four_step * 0.5001 + (15 * four_step + std::abs(*low)) * half_rounding + 16 * 6e-8);
        REQUIRE(std::abs(brain[i] - values[i]) <= std::abs(values[i]) / 256);
      }
    }
  }
}

TEST_CASE("what a block can hold exactly comes back exactly", "[formats]") {
  std::vector<float> eight, four;
  for (int i = 0; i < 32; ++i) {
    eight.push_back(0.5F * static_cast<float>(i == 3 ? -127 : 8 * i - 128 + 4));
    four.push_back(0.25F * static_cast<float>(i / 2) - 2.0F);
  }
  REQUIRE(expanded(StorageFormat::q8_0, quantised(StorageFormat::q8_0, eight)) == eight);
  REQUIRE(expanded(StorageFormat::q4_1, quantised(StorageFormat::q4_1, four)) == four);
  const std::vector<float> zeros(32, 0.0F), constant(32, -3.0F);
  REQUIRE(expanded(StorageFormat::q8_0, quantised(StorageFormat::q8_0, zeros)) == zeros);
  REQUIRE(expanded(StorageFormat::q4_1, quantised(StorageFormat::q4_1, constant)) == constant);
  REQUIRE_THROWS_AS(quantised(StorageFormat::q4_k, std::vector<float>(256)), std::logic_error);
}

TEST_CASE("a stored tensor expands whole, by rows and by selected rows", "[formats]") {
  const at::Tensor matrix = at::randn({6, 64}, at::make_generator<at::CPUGeneratorImpl>(3));
  const StoredTensor plain = stored("m", matrix);
  REQUIRE(plain.expand().equal(matrix));
  REQUIRE(plain.expand(at::kDouble).equal(matrix.to(at::kDouble)));
  REQUIRE(plain.expand(at::kBFloat16).equal(matrix.to(at::kBFloat16)));
  REQUIRE(plain.expand_selected_rows({5, 0, 5}).equal(matrix.index_select(0, at::tensor({5, 0, 5}))));
  const StoredTensor packed = plain.converted(StorageFormat::q8_0);
  REQUIRE(packed.stored_bytes() == 6 * 2 * 34);
  REQUIRE(packed.name() == "m");
  at::Tensor rows = at::empty({3, 64});
  packed.expand_rows(2, 3, rows.data_ptr<float>());
  REQUIRE(rows.equal(packed.expand().slice(0, 2, 5)));
  REQUIRE_THROWS_AS(packed.expand_rows(4, 3, rows.data_ptr<float>()), std::logic_error);
  REQUIRE_THROWS_AS(packed.expand_selected_rows({6}), std::logic_error);

  const StoredTensor vector = stored("v", at::arange(5, at::kLong));
  REQUIRE(vector.rows() == 1);
  REQUIRE(vector.row_elements() == 5);
  REQUIRE(vector.expand(at::kLong).equal(at::arange(5, at::kLong)));
  REQUIRE_THROWS_AS(stored("t", matrix.t()), std::logic_error);
}

TEST_CASE("a row order changes what is read, not what is stored", "[formats]") {
  const at::Tensor matrix = at::randn({4, 32}, at::make_generator<at::CPUGeneratorImpl>(3));
  const auto order = std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{2, 0, 3, 1});
  const at::Tensor expected = matrix.index_select(0, at::tensor({2, 0, 3, 1}));
  const StoredTensor ordered = stored("m", matrix).with_row_order(order);
  REQUIRE(ordered.data() == stored("m", matrix).data());
  REQUIRE(ordered.expand().equal(expected));
  REQUIRE(ordered.expand(at::kDouble).equal(expected.to(at::kDouble)));
  REQUIRE(ordered.expand_selected_rows({1, 2}).equal(expected.slice(0, 1, 3)));
  REQUIRE(ordered.converted(StorageFormat::f32).expand().equal(expected));
  const auto outside =
      std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{0, 1, 2, 4});
  REQUIRE_THROWS_AS(stored("m", matrix).with_row_order(outside), std::logic_error);
}

TEST_CASE("rows that do not fill blocks cannot be converted", "[formats][bad-input]") {
  const StoredTensor tensor = stored("odd", at::zeros({2, 33}));
  REQUIRE_THROWS_WITH(tensor.converted(StorageFormat::q8_0),
                      Catch::Matchers::Contains("odd") && Catch::Matchers::Contains("33"));
  REQUIRE_THROWS_AS(tensor.converted(StorageFormat::q6_k), InputError);
}

}  // namespace
}  // namespace zerolock
