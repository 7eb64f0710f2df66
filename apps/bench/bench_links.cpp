/// zerolock bench links: what boundaries cost, how well links are imitated, and what wire types lose.

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/bench/compared_schedules.hpp"
#include "apps/bench/loopback_boundary.hpp"
#include "apps/bench/plain_rates.hpp"
#include "apps/bench/schedule_comparison.hpp"
#include "apps/bench/wire_loss.hpp"
#include "apps/command/command.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/report/bench_table.hpp"
#include "tensors/base/processor_time.hpp"
#include "tensors/model/causal_model.hpp"
#include "transport/certificates.hpp"

namespace zerolock {

namespace {

constexpr std::int64_t width = 1024;
constexpr std::int64_t row_bytes = width * 4;
constexpr std::int64_t kibibyte = 1024;
constexpr std::int64_t large_entry_bytes = 4096 * kibibyte;
constexpr std::array<std::int64_t, 3> entry_sizes{64 * kibibyte, 1024 * kibibyte, large_entry_bytes};
constexpr std::uint64_t depth = 4;

/// English as anybody writes it, for hidden states as they occur.
constexpr const char* sample_text =
    "The ferry left the harbour at six in the morning with forty passengers, two lorries and a cargo of "
    "apples. By noon the wind had turned to the north-west, and the captain decided to wait behind the "
    "island until the sea was calm again. Somebody had brought a radio; it said that the bridge over the "
    "strait, planned since 1974, would now cost 3.2 billion and open in eight years. Nobody on board "
    "believed it.";

/// An entry with seeded normal numbers.
Entry entry_of(std::int64_t bytes) {
  auto layout = std::make_shared<MicroBatchLayout>();
  layout->sequence_offsets = {0, bytes / row_bytes};
  Entry entry;
  entry.position = {WindowIndex{1}, 0};
  entry.producer = Incarnation{1};
  entry.layout = layout;
  at::Generator generator = at::detail::createCPUGenerator(1);
  entry.payload = at::randn({bytes / row_bytes, width}, generator, at::kFloat);
  return entry;
}

BoundaryTerms terms_of_bench() {
  BoundaryTerms terms;
  terms.limits = {large_entry_bytes / row_bytes, 1, width, 0, at::kFloat};
  terms.depth = depth;
  terms.buffer_bytes_max = (depth + 1) * large_entry_bytes;
  return terms;
}

/// A row of the table; what a measurement does not have stays empty.
nlohmann::ordered_json row_of(const std::string& measured) {
  return {{"measured", measured},     {"entry_bytes", nullptr},     {"seconds", nullptr},
          {"cpu_seconds", nullptr},   {"formula_seconds", nullptr}, {"MB_per_second", nullptr},
          {"bytes_per_row", nullptr}, {"largest_error", nullptr},   {"mean_error", nullptr}};
}

/// What the same bytes took, a round after another: seconds, and seconds of processors at both ends together.
struct Rounds {
  std::vector<double> wall;
  std::vector<double> processor;

  template <class Transfer>
  void measure(Transfer transfer) {
    const double begin = process_cpu_seconds();
    wall.push_back(transfer());
    processor.push_back(process_cpu_seconds() - begin);
  }
};

struct ComparedRounds {
  Rounds asio;
  Rounds plain;
  Rounds tls;
  Rounds aes_128;
  Rounds aes_256;
  Rounds both_ends;  // of AES-128
};

/// Median over the rounds of the time of a bound to the time of what it bounds. Within a round both have met
/// the same machine.
double share_of(const std::vector<double>& bound, const std::vector<double>& taken) {
  std::vector<double> shares;
  for (std::size_t round = 0; round < taken.size(); ++round) shares.push_back(bound[round] / taken[round]);
  return median(shares);
}

std::vector<double> slower(std::vector<double> first, const std::vector<double>& second) {
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = std::max(first[i], second[i]);
  return first;
}

std::vector<double> sum(std::vector<double> first, const std::vector<double>& second) {
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += second[i];
  return first;
}

class BenchLinksCommand : public Command {
 public:
  BenchLinksCommand() {
    options_.recipe = Recipe::none;
    options_.windows = 16;
    comparison_.rounds = rounds_of_rates;
    comparison_.compute = StageCompute::simulated;
    comparison_.media = {LinkSharing::way, LinkSharing::stage, LinkSharing::both};
  }

  [[nodiscard]] const char* name() const override { return "links"; }
  [[nodiscard]] const char* summary() const override {
    return "rate of a boundary on loopback, imitated links against their formula, loss of the wire types; "
           "with --schedules, their rates over slow links";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench links --model SmolLM2-135M-Instruct.Q4_1.gguf";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    comparison_.declare(table);
    table.integer("entries", entries_, 1, 100'000, "of 4 MiB in a round");
    table.integer("repeats", repeats_, 1, 1000, "of an entry over each imitated link");
  }

  int run(OptionTable& table) override {
    if (!comparison_.schedules.empty()) return compare(table);
    refuse_what_compares(table);
    start_log(options_.log);
    prepare_compute();
    BenchResult result;
    result.bench = "links";
    result.simulated = !options_.model;
    const at::Tensor rows = hidden_rows();  // first: a bad --model is found at once
    measure_rates(result);
    measure_profiles(result);
    measure_losses(result, rows);
    std::fputs((options_.json ? result.to_json() : result.to_table()).c_str(), stdout);
    return status_done;
  }

 private:
  // -- schedules

  int compare(const OptionTable& table) {
    for (const char* flag : {"schedule", "data", "resume", "epochs", "entries", "repeats"}) {
      if (table.given(flag)) {
        throw InputError(std::string("--") + flag,
                         "does not go with --schedules, which are compared over "
                         "full rows of --seq tokens; leave it away");
      }
    }
    options_.complete_model(table);
    if (!table.given("rounds")) comparison_.rounds = 3;
    start_log(options_.log);
    prepare_compute();
    ScheduleComparison comparison(options_, comparison_, "links");
    std::vector<std::string> links{"local", "wifi", "mobile", "constrained"};
    if (table.given("link")) links = {options_.link};
    for (const std::string& link : links) comparison.measure(options_.stage_count(), link);
    std::vector<PlotPanel> panels;
    for (const LinkSharing sharing : comparison_.media) {
      const std::string medium(to_string(sharing));
      panels.push_back({medium, "seconds of an entry on the link", "examples a second",
                        comparison_lines(comparison.result(), "entry_seconds", "examples_per_second",
                                         {{"medium", medium}})});
    }
    publish_comparison(comparison, options_, "Schedules over links", panels);
    return status_done;
  }

  /// Flags that would change nothing.
  static void refuse_what_compares(const OptionTable& table) {
    const std::set<std::string> used{"model", "rounds",    "entries", "repeats",
                                     "json",  "log-level", "log-json"};
    for (const std::string& name : table.names()) {
      if (table.given(name) && !used.contains(name)) {
        throw InputError("--" + name, "goes with --schedules in bench links; leave it away");
      }
    }
  }

  /// Hidden states [rows, width] between the middle layers of the model, or seeded normal numbers.
  [[nodiscard]] at::Tensor hidden_rows() const {
    if (!options_.model) return entry_of(entry_sizes.front()).payload;
    const OpenedModel opened = open_model(*options_.model);
    const std::vector<TokenId> tokens = opened.tokenizer->encode(sample_text, true);
    const auto count = static_cast<std::int64_t>(tokens.size());
    const at::Tensor ids = at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), at::kLong);
    return CausalModel(opened.files).hidden_states(ids, {0, count}, opened.files->config().layers / 2);
  }

  // -- rates

  void measure_rates(BenchResult& result) const {
    const Entry entry = entry_of(large_entry_bytes);
    const std::size_t message_bytes = entry_frame(1, entry, WireType::fp32).wire_bytes();
    const TemporaryFolder folder;
    make_certificates(folder.path(), {{{NodeRole::executor, "upstream"}, {"127.0.0.1"}},
                                      {{NodeRole::executor, "downstream"}, {"127.0.0.1"}}});
    const auto certified = [&folder](const std::string& node) {
      return Security::tls(find_tls_files(folder.path(), NodeRole::executor, node));
    };
    LoopbackBoundary::Setup setup;
    setup.terms = terms_of_bench();
    LoopbackBoundary plain(setup);
    setup.upstream = certified("upstream");
    setup.downstream = certified("downstream");
    LoopbackBoundary tls(setup);
    PlainLoopback asio(message_bytes);
    // A first round, so that memory and congestion windows are warm, counts for nothing.
    ComparedRounds unused;
    measure_round(unused, asio, plain, tls, entry, message_bytes);
    ComparedRounds rounds;
    for (std::uint64_t round = 0; round < comparison_.rounds; ++round) {
      measure_round(rounds, asio, plain, tls, entry, message_bytes);
    }
    report_rates(result, rounds, message_bytes);
  }

  void measure_round(ComparedRounds& rounds, PlainLoopback& asio, LoopbackBoundary& plain,
                     LoopbackBoundary& tls, const Entry& entry, std::size_t message_bytes) const {
    rounds.asio.measure([&] { return asio.transfer(entries_); });
    rounds.plain.measure([&] { return plain.transfer(entry, entries_); });
    rounds.tls.measure([&] { return tls.transfer(entry, entries_); });
    const std::uint64_t bytes = entries_ * message_bytes;
    rounds.aes_128.measure([&] { return cipher_seconds(bytes, GcmKey::aes_128); });
    rounds.aes_256.measure([&] { return cipher_seconds(bytes, GcmKey::aes_256); });
    rounds.both_ends.measure([&] { return both_ends_cipher_seconds(bytes); });
  }

  void report_rates(BenchResult& result, const ComparedRounds& rounds, std::size_t message_bytes) const {
    const auto add = [&](const std::string& measured, const Rounds& taken) {
      nlohmann::ordered_json row = row_of(measured);
      const double each = median(taken.wall) / static_cast<double>(entries_);
      row["entry_bytes"] = large_entry_bytes;
      row["seconds"] = each;
      row["cpu_seconds"] = median(taken.processor) / static_cast<double>(entries_);
      row["MB_per_second"] = static_cast<double>(message_bytes) / each / 1e6;
      result.rows.push_back(row);
    };
    add("plain Asio", rounds.asio);
    add("boundary", rounds.plain);
    add("boundary, TLS", rounds.tls);
    add("AES-128-GCM, one core", rounds.aes_128);
    add("AES-256-GCM, one core", rounds.aes_256);
    add("AES-128-GCM, both ends", rounds.both_ends);
    // Each byte is moved and encrypted, and decrypted and moved: one thread does one after the other.
    Rounds in_turn;
    in_turn.wall = sum(rounds.asio.wall, rounds.aes_128.wall);
    in_turn.processor = sum(rounds.asio.processor, rounds.both_ends.processor);
    add("bound of one thread per end", in_turn);
    result.ratios["boundary / plain Asio"] = share_of(rounds.asio.wall, rounds.plain.wall);
    result.ratios["boundary with TLS / lower of plain Asio and AES-128-GCM"] =
        share_of(slower(rounds.asio.wall, rounds.aes_128.wall), rounds.tls.wall);
    result.ratios["boundary with TLS / bound of one thread per end"] =
        share_of(in_turn.wall, rounds.tls.wall);
    result.ratios["boundary / plain Asio, by CPU time"] =
        share_of(rounds.asio.processor, rounds.plain.processor);
    result.ratios["boundary with TLS / bound of one thread per end, by CPU time"] =
        share_of(in_turn.processor, rounds.tls.processor);
  }

  // -- imitated links

  void measure_profiles(BenchResult& result) const {
    double worst = 0;
    for (const char* name : {"local", "wifi", "mobile", "constrained"}) {
      LoopbackBoundary::Setup setup;
      setup.link = parse_link_profile(name, "link");
      setup.terms = terms_of_bench();
      LoopbackBoundary boundary(setup);
      for (const std::int64_t bytes : entry_sizes) {
        const nlohmann::ordered_json row = measured_profile(boundary, name, setup.link, bytes);
        result.rows.push_back(row);
        if (!row["formula_seconds"].is_null()) {
          worst = std::max(worst, row["seconds"].get<double>() / row["formula_seconds"].get<double>());
        }
      }
    }
    result.ratios["imitated link / its formula, at most"] = worst;
  }

  [[nodiscard]] nlohmann::ordered_json measured_profile(LoopbackBoundary& boundary, const std::string& name,
                                                        const LinkProfile& link, std::int64_t bytes) const {
    const Entry entry = entry_of(bytes);
    std::vector<double> seconds;
    for (std::uint64_t i = 0; i < repeats_; ++i) seconds.push_back(boundary.transfer(entry, 1));
    const double wire_bytes = static_cast<double>(entry_frame(1, entry, WireType::fp32).wire_bytes());
    nlohmann::ordered_json row = row_of("link " + name);
    row["entry_bytes"] = bytes;
    row["seconds"] = median(seconds);
    row["MB_per_second"] = wire_bytes / median(seconds) / 1e6;
    if (link.shapes()) {
      row["formula_seconds"] = std::chrono::duration<double>(link.latency).count() +
                               wire_bytes / static_cast<double>(link.bytes_per_second);
    }
    return row;
  }

  // -- wire types

  static void measure_losses(BenchResult& result, const at::Tensor& rows) {
    for (const WireType type : {WireType::fp32, WireType::bf16, WireType::int8}) {
      const WireLoss loss = wire_loss(rows, type);
      nlohmann::ordered_json row = row_of("wire type " + std::string(to_string(type)));
      row["bytes_per_row"] = loss.bytes_per_row;
      row["largest_error"] = loss.largest_error;
      row["mean_error"] = loss.mean_error;
      result.rows.push_back(row);
    }
  }

  static constexpr std::uint64_t rounds_of_rates = 15;

  TrainOptions options_;
  ComparisonOptions comparison_;
  std::uint64_t entries_ = 16;
  std::uint64_t repeats_ = 5;
};

}  // namespace

std::unique_ptr<Command> make_bench_links_command() {
  return std::make_unique<BenchLinksCommand>();
}

}  // namespace zerolock
