#include "transport/packed_numbers.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace zerolock {

namespace {

/// How the numbers of a list are written; followed by what it needs.
enum class Packing : std::uint8_t {
  differences = 0,  // least value, bits of a difference, the differences
  dictionary,       // number of distinct values, these as steps upward, the places
};

std::size_t bits_for(std::uint64_t largest) {
  return static_cast<std::size_t>(std::bit_width(largest));
}

std::size_t bytes_for(std::size_t count, std::size_t bits) {
  return (count * bits + 7) / 8;
}

/// Numbers of `bits` bits each, lowest bit first, across byte borders.
void write_bits(WireWriter& writer, const std::vector<std::uint64_t>& numbers, std::size_t bits) {
  std::vector<std::byte> bytes(bytes_for(numbers.size(), bits));
  std::size_t at = 0;
  for (const std::uint64_t number : numbers) {
    for (std::size_t bit = 0; bit < bits; ++bit, ++at) {
      if ((number >> bit) & 1U) bytes[at / 8] |= std::byte{1} << (at % 8);
    }
  }
  writer.write(bytes.data(), bytes.size());
}

std::vector<std::uint64_t> read_bits(WireReader& reader, std::size_t count, std::size_t bits) {
  const std::span<const std::byte> bytes = reader.read_bytes(bytes_for(count, bits));
  std::vector<std::uint64_t> numbers(count);
  std::size_t at = 0;
  for (std::uint64_t& number : numbers) {
    for (std::size_t bit = 0; bit < bits; ++bit, ++at) {
      const auto set = std::to_integer<std::uint64_t>((bytes[at / 8] >> (at % 8)) & std::byte{1});
      number |= set << bit;
    }
  }
  return numbers;
}

std::vector<std::byte> pack_differences(const std::vector<std::int64_t>& numbers) {
  const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
  const std::size_t bits = bits_for(static_cast<std::uint64_t>(*largest - *least));
  std::vector<std::uint64_t> differences;
  differences.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    differences.push_back(static_cast<std::uint64_t>(number - *least));
  }
  WireWriter writer;
  writer(Packing::differences);
  write_varint(writer, static_cast<std::uint64_t>(*least));
  writer(static_cast<std::uint8_t>(bits));
  write_bits(writer, differences, bits);
  return writer.take();
}

std::vector<std::byte> pack_dictionary(const std::vector<std::int64_t>& numbers) {
  std::vector<std::int64_t> distinct = numbers;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  WireWriter writer;
  writer(Packing::dictionary);
  write_varint(writer, distinct.size());
  std::int64_t previous = 0;
  for (const std::int64_t value : distinct) {
    write_varint(writer, static_cast<std::uint64_t>(value - std::exchange(previous, value)));
  }
  std::vector<std::uint64_t> places;
  places.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    const auto place = std::lower_bound(distinct.begin(), distinct.end(), number) - distinct.begin();
    places.push_back(static_cast<std::uint64_t>(place));
  }
  write_bits(writer, places, bits_for(distinct.size() - 1));
  return writer.take();
}

std::vector<std::int64_t> read_differences(WireReader& reader, std::size_t count, std::uint64_t most) {
  const std::uint64_t least = read_varint(reader, most);
  std::uint8_t bits = 0;
  reader(bits);
  if (bits > 63) reader.fail("a number of " + std::to_string(bits) + " bits");
  std::vector<std::int64_t> numbers;
  numbers.reserve(count);
  for (const std::uint64_t difference : read_bits(reader, count, bits)) {
    if (difference > most - least) reader.fail("a number above " + std::to_string(most));
    numbers.push_back(static_cast<std::int64_t>(least + difference));
  }
  return numbers;
}

std::vector<std::int64_t> read_dictionary(WireReader& reader, std::size_t count, std::uint64_t most) {
  const std::uint64_t size = read_varint(reader, count);
  if (size == 0) reader.fail("a list of numbers without values");
  std::vector<std::int64_t> distinct;
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    value += read_varint(reader, most - value);
    distinct.push_back(static_cast<std::int64_t>(value));
  }
  std::vector<std::int64_t> numbers;
  numbers.reserve(count);
  for (const std::uint64_t place : read_bits(reader, count, bits_for(size - 1))) {
    if (place >= size) reader.fail("a number that its list does not have");
    numbers.push_back(distinct[place]);
  }
  return numbers;
}

}  // namespace

void write_varint(WireWriter& writer, std::uint64_t value) {
  do {
    const auto low = static_cast<std::uint8_t>(value & 0x7f);
    value >>= 7;
    writer(static_cast<std::uint8_t>(value > 0 ? low | 0x80 : low));
  } while (value > 0);
}

std::uint64_t read_varint(WireReader& reader, std::uint64_t most) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    std::uint8_t byte = 0;
    reader(byte);
    if (shift > 56 && byte > 0x7f) reader.fail("a number of more than 63 bits");
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte <= 0x7f) break;
  }
  if (value > most) reader.fail("the number " + std::to_string(value) + " above " + std::to_string(most));
  return value;
}

void write_packed(WireWriter& writer, const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) return;
  const std::vector<std::byte> differences = pack_differences(numbers);
  const std::vector<std::byte> dictionary = pack_dictionary(numbers);
  const std::vector<std::byte>& shorter = dictionary.size() < differences.size() ? dictionary : differences;
  writer.write(shorter.data(), shorter.size());
}

std::vector<std::int64_t> read_packed(WireReader& reader, std::size_t count, std::int64_t most) {
  if (count == 0) return {};
  Packing packing{};
  reader(packing);
  check_enumeration(reader, packing, Packing::differences, Packing::dictionary, "packing");
  const auto limit = static_cast<std::uint64_t>(most);
  return packing == Packing::differences ? read_differences(reader, count, limit)
                                         : read_dictionary(reader, count, limit);
}

}  // namespace zerolock
