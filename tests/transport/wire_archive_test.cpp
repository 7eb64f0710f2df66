#include "transport/wire_archive.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "transport/hello.hpp"
#include "transport/packed_numbers.hpp"

namespace zerolock {

struct Sample {
  bool flag = false;
  std::int16_t small = 0;
  double real = 0;
  NodeRole role = NodeRole::executor;
  std::string text;
  std::vector<std::int64_t> numbers;
  std::vector<std::string> texts;
  std::optional<BatchPosition> position;
  LayerRange layers;

  bool operator==(const Sample&) const = default;
};
template <class Archive>
void serialize(Archive& archive, Sample& x) {
  archive(x.flag, x.small, x.real, x.role, x.text, x.numbers, x.texts, x.position, x.layers);
}

namespace {

Sample full_sample() {
  return {true,
          -2,
          0.1,
          NodeRole::coordinator,
          "h\xc3\xa9llo",
          {1, -1, std::int64_t{1} << 62},
          {"", "two", std::string(300, 'x')},
          BatchPosition{WindowIndex{3}, 4},
          {5, 6}};
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

}  // namespace

TEST_CASE("structs read back as they were written", "[wire]") {
  CHECK(from_wire<Sample>(to_wire(full_sample()), "sample") == full_sample());
  CHECK(from_wire<Sample>(to_wire(Sample{}), "sample") == Sample{});
}

TEST_CASE("numbers are little-endian and lengths are u32", "[wire]") {
  CHECK(to_wire(std::uint32_t{0x01020304}) == bytes({4, 3, 2, 1}));
  CHECK(to_wire(std::string("ab")) == bytes({2, 0, 0, 0, 'a', 'b'}));
  CHECK(to_wire(std::vector<std::uint16_t>{1, 2}) == bytes({2, 0, 0, 0, 1, 0, 2, 0}));
  CHECK(to_wire(std::optional<std::uint8_t>{9}) == bytes({1, 9}));
}

TEST_CASE("every cut and every byte too many is an error", "[wire]") {
  const auto whole = to_wire(full_sample());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_THROWS_AS(from_wire<Sample>(std::span(whole).first(length), "sample"), WireError);
  }
  auto longer = whole;
  longer.push_back({});
  CHECK_THROWS_WITH(from_wire<Sample>(longer, "sample"), "sample: 1 bytes too many");
}

TEST_CASE("a length that lies allocates nothing", "[wire]") {
  const auto lie = bytes({0xff, 0xff, 0xff, 0xff, 1, 2, 3});
  CHECK_THROWS_WITH(from_wire<std::string>(lie, "x"),
                    "x: a list of 4294967295 items does not fit the 3 bytes that follow");
  CHECK_THROWS_AS(from_wire<std::vector<double>>(lie, "x"), WireError);
  CHECK_THROWS_AS(from_wire<std::vector<std::string>>(lie, "x"), WireError);
  // Three bytes cannot be two numbers of two bytes.
  CHECK_THROWS_AS(from_wire<std::vector<std::uint16_t>>(bytes({2, 0, 0, 0, 1, 2, 3}), "x"), WireError);
}

TEST_CASE("a truth value is 0 or 1", "[wire]") {
  CHECK_THROWS_WITH(from_wire<bool>(bytes({2}), "x"), "x: a truth value is 2");
}

TEST_CASE("random bytes never do more than fail", "[wire]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed=" << seed);
  std::mt19937_64 random(seed);
  const auto whole = to_wire(full_sample());
  for (int round = 0; round < 2000; ++round) {
    auto changed = whole;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<std::byte>(random());
    try {
      const auto again = from_wire<Sample>(changed, "sample");
      CHECK(to_wire(again).size() == changed.size());
    } catch (const WireError&) {
    }
  }
}

TEST_CASE("packed numbers come back", "[wire]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = random() % 200;
    const std::uint64_t range = std::uint64_t{1} << (random() % 62);
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<std::int64_t>(random() % range));
    WireWriter writer;
    write_packed(writer, numbers);
    const auto packed = writer.take();
    WireReader reader(packed, "numbers");
    CHECK(read_packed(reader, count, static_cast<std::int64_t>(range)) == numbers);
    CHECK_NOTHROW(reader.finish());
    CHECK(packed.size() <= 20 + count * 8);
  }
}

TEST_CASE("equal and repeating numbers take almost nothing", "[wire]") {
  const auto size_of = [](const std::vector<std::int64_t>& numbers) {
    WireWriter writer;
    write_packed(writer, numbers);
    return writer.take().size();
  };
  CHECK(size_of({}) == 0);
  CHECK(size_of(std::vector<std::int64_t>(1000, 4000)) <= 4);
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 64; ++i) labels.push_back(i % 4 == 0 ? 48000 : 12000 + i % 4);
  CHECK(size_of(labels) <= 12 + 64 / 4);
}

TEST_CASE("packed numbers outside of their range are refused", "[wire]") {
  WireWriter writer;
  write_packed(writer, {0, 5, 100});
  const auto packed = writer.take();
  WireReader reader(packed, "numbers");
  CHECK_THROWS_AS(read_packed(reader, 3, 99), WireError);
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 5) {
      const auto hostile = bytes({first, second, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
      WireReader other(hostile, "numbers");
      try {
        for (const std::int64_t number : read_packed(other, 8, 1000)) CHECK((number >= 0 && number <= 1000));
      } catch (const WireError&) {
      }
    }
  }
}

TEST_CASE("a hello is checked", "[wire]") {
  Hello hello;
  hello.node = {NodeRole::executor, "node-a"};
  hello.program_version = "0.1.0";
  hello.run = "run-7";
  hello.purpose = ConnectionPurpose::boundary;
  hello.boundary = StageIndex{2};
  hello.token = "secret";
  const Hello again = read_hello(to_wire(hello));
  CHECK(again.node == hello.node);
  CHECK(again.token == "secret");
  CHECK(purpose_text(again) == "boundary 2");
  const auto refused = [](Hello changed) { CHECK_THROWS_AS(read_hello(to_wire(changed)), WireError); };
  Hello changed = hello;
  changed.node.name = "two words";
  refused(changed);
  changed.node.name = "";
  refused(changed);
  changed = hello;
  changed.node.role = static_cast<NodeRole>(9);
  refused(changed);
  changed = hello;
  changed.purpose = static_cast<ConnectionPurpose>(0);
  refused(changed);
  changed.purpose = ConnectionPurpose::status;
  CHECK(purpose_text(read_hello(to_wire(changed))) == "status");
  changed.purpose = ConnectionPurpose::inject;
  CHECK(purpose_text(read_hello(to_wire(changed))) == "inject");
  changed.purpose = static_cast<ConnectionPurpose>(6);
  refused(changed);
  changed = hello;
  changed.run = "run\n2026 forged line of a log";
  refused(changed);
}

TEST_CASE("secrets are equal only as a whole", "[wire]") {
  CHECK(same_secret("abc", "abc"));
  CHECK_FALSE(same_secret("abc", "abd"));
  CHECK_FALSE(same_secret("abc", "ab"));
  CHECK(same_secret("", ""));
}

}  // namespace zerolock
