// What `zerolock bench links` reports. How fast it is depends on the machine and is not judged here.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "command_process.hpp"
#include "tiny_model.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

json measured(const std::vector<std::string>& more) {
  const std::vector<std::string> quick{"bench",     "links", "--json",    "--rounds", "1",
                                       "--entries", "2",     "--repeats", "1"};
  const CommandOutput output = run_zerolock(quick + more);
  INFO(output.err);
  REQUIRE(output.status == 0);
  return json::parse(output.out);
}

const json& row_of(const json& result, const std::string& name, std::size_t index = 0) {
  for (const json& row : result["rows"]) {
    if (row["measured"] == name && index-- == 0) return row;
  }
  FAIL("no row " + name);
  return result;
}

}  // namespace

TEST_CASE("links are measured against plain sockets, their formula and exact numbers") {
  const json result = measured({});
  CHECK(result["bench"] == "links");
  CHECK(result["simulated"] == true);
  for (const json& row : result["rows"]) CHECK(row.size() == result["rows"][0].size());
  for (const char* way : {"plain Asio", "boundary", "boundary, TLS", "AES-128-GCM, one core",
                          "AES-256-GCM, one core", "AES-128-GCM, both ends"}) {
    CHECK(row_of(result, way)["MB_per_second"].get<double>() > 0);
  }
  // One after the other.
  const auto seconds = [&result](const char* way) { return row_of(result, way)["seconds"].get<double>(); };
  CHECK(seconds("bound of one thread per end") ==
        Approx(seconds("plain Asio") + seconds("AES-128-GCM, one core")));
  for (const auto& [name, value] : result["ratios"].items()) {
    INFO(name);
    CHECK(value.get<double>() > 0);
  }
  // 4 MiB through 50 Mbit/s, and 30 ms: it cannot arrive before.
  const json& slow = row_of(result, "link constrained", 2);
  CHECK(slow["formula_seconds"].get<double>() == Approx(0.03 + 4194304 / 6.25e6).epsilon(0.001));
  CHECK(slow["seconds"].get<double>() > 0.999 * slow["formula_seconds"].get<double>());
  CHECK(row_of(result, "link local")["formula_seconds"].is_null());
  // Of 1024 normal numbers.
  CHECK(row_of(result, "wire type fp32")["bytes_per_row"] == 4096);
  CHECK(row_of(result, "wire type fp32")["largest_error"] == 0);
  CHECK(row_of(result, "wire type bf16")["bytes_per_row"] == 2048);
  CHECK(row_of(result, "wire type bf16")["largest_error"].get<double>() < 1.0 / 256);
  CHECK(row_of(result, "wire type int8")["bytes_per_row"] == 1028);
  const double int8_error = row_of(result, "wire type int8")["mean_error"].get<double>();
  CHECK(int8_error > row_of(result, "wire type bf16")["mean_error"].get<double>());
  CHECK(int8_error < 0.02);
}

TEST_CASE("wire types are tried on a model's hidden states") {
  const TinyWorkplace place;
  const json result = measured({"--model", place.model()});
  CHECK(result["simulated"] == false);
  const double error = row_of(result, "wire type bf16")["mean_error"].get<double>();
  CHECK(error > 0);
  CHECK(error < 1.0 / 256);
}
