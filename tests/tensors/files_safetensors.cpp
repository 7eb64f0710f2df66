#include <ATen/ATen.h>

#include "tensors/base/error.hpp"
#include "tensors/files/safetensors.hpp"
#include "tests/tensors/files_support.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {
namespace {

using Catch::Matchers::Contains;
using test::TemporaryFolder;

/// A safetensors file with the given JSON text and data bytes.
std::filesystem::path file_of(const TemporaryFolder& folder, const std::string& header,
                              const std::string& data) {
  const std::filesystem::path file = folder.path() / "broken.safetensors";
  test::write_bytes(file, test::raw<std::uint64_t>(header.size()) + header + data);
  return file;
}

void require_refused(const std::string& header, const std::string& data, const std::string& reason) {
  const TemporaryFolder folder;
  INFO("header: " << header.substr(0, 200));
  REQUIRE_THROWS_WITH(SafetensorsFile::open(file_of(folder, header, data)),
                      Contains("broken.safetensors") && Contains(reason));
  REQUIRE_THROWS_AS(SafetensorsFile::open(file_of(folder, header, data)), InputError);
}

std::string entry(const std::string& name, const std::string& rest) {
  return "\"" + name + "\":{" + rest + "}";
}

TEST_CASE("a safetensors file is read back as it was written", "[safetensors]") {
  const TemporaryFolder folder;
  const at::Tensor grid = at::arange(12, at::kFloat).reshape({3, 4});
  const TensorMap tensors{
      {"b.half", at::arange(5, at::kFloat).to(at::kBFloat16)},
      {"a.bytes", at::arange(3, at::kByte)},
      {"z.transposed", grid.t()},
      {"c.wide", at::arange(4, at::kDouble) / 3},
      {"d.counter", at::full({}, int64_t{1} << 60, at::kLong)},
      {"e.nothing", at::empty({0, 7}, at::kFloat)},
      {"f.f16", at::arange(4, at::kFloat).to(at::kHalf)},
      {"g.i32", at::arange(4, at::kInt)},
  };
  const std::filesystem::path file = folder.path() / "all.safetensors";
  write_safetensors(file, tensors, {{"format", "pt"}, {"note", "ü \"quoted\""}});

  const auto opened = SafetensorsFile::open(file);
  REQUIRE(opened->metadata() == TextMap{{"format", "pt"}, {"note", "ü \"quoted\""}});
  REQUIRE(opened->tensors().size() == tensors.size());
  for (const auto& [name, expected] : tensors) {
    const StoredTensor& read = opened->tensor(name);
    INFO(name);
    REQUIRE(read.expand(expected.scalar_type()).equal(expected));
    REQUIRE(reinterpret_cast<std::uintptr_t>(read.data()) % expected.element_size() == 0);
  }
  REQUIRE_THROWS_WITH(opened->tensor("no.such"), Contains("all.safetensors") && Contains("no.such"));
}

TEST_CASE("the bytes written depend on the content only", "[safetensors]") {
  const TemporaryFolder folder;
  const TensorMap tensors{{"two", at::ones({2, 3})}, {"one", at::zeros({5})}};
  const std::string bytes = serialise_safetensors(tensors, {{"format", "pt"}});
  write_safetensors(folder.path() / "same", tensors, {{"format", "pt"}});
  REQUIRE(test::read_bytes(folder.path() / "same") == bytes);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"one":{"dtype":"F32","shape":[5],"data_offsets":[0,20]},)"
      R"("two":{"dtype":"F32","shape":[2,3],"data_offsets":[20,44]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  REQUIRE(bytes.substr(0, 8) == test::raw<std::uint64_t>(padded));
  REQUIRE(bytes.substr(8, padded) == header + std::string(padded - header.size(), ' '));
  REQUIRE(bytes.size() == 8 + padded + 44);
}

TEST_CASE("an empty safetensors file is a file", "[safetensors]") {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "empty", {});
  REQUIRE(SafetensorsFile::open(folder.path() / "empty")->tensors().empty());
}

TEST_CASE("tensors keep the mapping alive", "[safetensors]") {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "file", {{"x", at::arange(1000, at::kFloat)}});
  const StoredTensor tensor = SafetensorsFile::open(folder.path() / "file")->tensor("x");
  std::filesystem::remove(folder.path() / "file");
  REQUIRE(tensor.expand().equal(at::arange(1000, at::kFloat)));
}

TEST_CASE("files that are no safetensors files are refused by name", "[safetensors][bad-input]") {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& name) { return SafetensorsFile::open(folder.path() / name); };
  REQUIRE_THROWS_WITH(open("missing"), Contains("missing") && Contains("No such file"));
  REQUIRE_THROWS_WITH(SafetensorsFile::open(folder.path()), Contains("not a regular file"));
  test::write_bytes(folder.path() / "short", "1234567");
  REQUIRE_THROWS_WITH(open("short"), Contains("too short") && Contains("7 bytes"));
  test::write_bytes(folder.path() / "none", "");
  REQUIRE_THROWS_WITH(open("none"), Contains("too short"));
  for (const std::uint64_t length : {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{3}}) {
    test::write_bytes(folder.path() / "long", test::raw(length) + "{}");
    REQUIRE_THROWS_WITH(open("long"), Contains("the header claims " + std::to_string(length)));
  }
  require_refused("{", "", "not valid JSON");
  require_refused("[]", "", "not a JSON object");
  require_refused("{} x", "", "not valid JSON");
  require_refused(std::string(100000, '['), "", "not valid JSON");
}

TEST_CASE("tensors that a header must not claim are refused by name", "[safetensors][bad-input]") {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string data(8, 'x');
  const auto refused = [&](const std::string& entries, const std::string& reason) {
    require_refused("{" + entries + "}", data, reason);
  };
  refused(entry("t", R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"),
          "tensor t: dtype \"F31\" is unknown");
  refused(entry("t", R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), "dtype must be a text, is 7");
  refused(entry("t", R"("shape":[2],"data_offsets":[0,8])"), "dtype is missing");
  refused(entry("t", R"("dtype":"F32","data_offsets":[0,8])"), "shape is missing");
  refused(entry("t", R"("dtype":"F32","shape":[2])"), "data_offsets is missing");
  refused(R"("t":5)", "tensor t: must be an object, is 5");
  refused(entry("t", R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "non-negative integer");
  refused(entry("t", R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "non-negative integer");
  refused(entry("t", R"("dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,8])"),
          "needs 4611686018427387904");
  refused(entry("t", R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8])"), "too large");
  refused(entry("t", R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "too large");
  refused(entry("t", R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), "too large");
  refused(entry("t", R"("dtype":"F32","shape":[2],"data_offsets":[0,1152921504606846976])"), "do not lie in");
  refused(entry("t", R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "do not lie in");
  refused(entry("t", R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), "must be a list of two");
  refused(entry("t", R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
          "needs 12 bytes, the offsets hold 8");
  refused(entry("t", good) + "," + entry("u", good), "overlaps");
  refused(entry("t", R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "bytes 0 to 4 before tensor t");
  refused(entry("t", R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "4 bytes at the end");
  refused(entry("t", good) + "," + entry("t", good), "names \"t\" twice");
  refused(entry("t", good + R"(,"dtype":"F32")"), "names \"dtype\" twice");
  refused(R"("__metadata__":{"a":1},)" + entry("t", good), "metadata \"a\" must be a text");
  refused(R"("__metadata__":[],)" + entry("t", good), "__metadata__ must be an object, is a list");
}

TEST_CASE("a truncated safetensors file is refused", "[safetensors][bad-input]") {
  const TemporaryFolder folder;
  const std::string bytes = serialise_safetensors({{"x", at::ones({4, 4})}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    test::write_bytes(folder.path() / "cut", bytes.substr(0, size));
    REQUIRE_THROWS_AS(SafetensorsFile::open(folder.path() / "cut"), InputError);
  }
}

}  // namespace
}  // namespace zerolock
