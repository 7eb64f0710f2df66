/// zerolock bench replay: how long a stage takes for a window that waits for it, with several micro-batches
/// at once, and whether its state has the same bits.

#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/bench/filled_rows.hpp"
#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "apps/command/opened_model.hpp"
#include "apps/command/random_model.hpp"
#include "apps/report/bench_table.hpp"
#include "tensors/base/error.hpp"
#include "tensors/base/processor_time.hpp"
#include "tensors/base/sgemm.hpp"
#include "tensors/files/model_files.hpp"
#include "tensors/model/causal_model.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tensors/training/joint_backend.hpp"

namespace zerolock {

namespace {

class BenchReplayCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "replay"; }
  [[nodiscard]] const char* summary() const override {
    return "time of a window that waits for a stage, with several micro-batches at once (--replay-batch)";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock bench replay --model SmolLM2-135M-Instruct.Q4_1.gguf --together 1,2,4,8";
  }

  void declare(OptionTable& table) override {
    table.model("model", model_, model_help);
    table.integer("stages", stages_, 1, 4096, "of the model; the one in the middle is measured");
    table.integer("batch", batch_, 1, 4096, "sequences of a micro-batch");
    table.integer("accumulate", accumulate_, 1, 4096, "micro-batches of the window");
    table.integer("seq", tokens_, 2, 65'536, "tokens of a sequence");
    table.integers("together", together_, 1, 64, "micro-batches at once");
    table.integer("rounds", rounds_, 1, 1000, "of all of them, one after the other; medians are printed");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable&) override {
    if (!model_) throw InputError("--model", std::string("is required: ") + model_help);
    start_log(log_);
    prepare_compute();
    at::set_num_threads(1);
    require_fast_sgemm();
    const auto files = ModelFiles::open(model_location(*model_));
    const auto partition = equal_partition(files->config().layers, static_cast<std::int64_t>(stages_));
    const StageIndex middle{stages_ / 2};
    MemoryAccount account;
    const auto backend = make_chunk_backend(files, middle, partition, TrainingSettings{}, account);
    const std::vector<Entry> entries = window_into(files, partition[middle.value].first);
    const BenchResult result = measure(*backend, entries);
    std::fputs((json_ ? result.to_json() : result.to_table()).c_str(), stdout);
    return status_done;
  }

 private:
  /// The window's hidden states before the given layer, of seeded token ids.
  [[nodiscard]] std::vector<Entry> window_into(const std::shared_ptr<const ModelFiles>& files,
                                               std::int64_t layer) const {
    const auto rows = make_filled_rows(
        {files->config().vocabulary, static_cast<std::int64_t>(tokens_), batch_, accumulate_, 1, 0});
    CausalModel before(files);
    std::vector<Entry> entries;
    for (std::uint64_t i = 0; i < accumulate_; ++i) {
      Entry entry = rows->make({WindowIndex{1}, i});
      if (layer > 0) {
        entry.payload = before.hidden_states(entry.payload, entry.layout->sequence_offsets, layer).clone();
      }
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  /// Trains the window from the same state; CPU seconds without the way back to it.
  static double train(StageBackend& backend, const StageState& start, const std::vector<Entry>& entries,
                      std::uint64_t together) {
    backend.restore(start);
    auto& joint = dynamic_cast<JointBackend&>(backend);
    const double begin = thread_cpu_seconds();
    for (std::size_t first = 0; first < entries.size(); first += together) {
      const std::size_t last = std::min<std::size_t>(entries.size(), first + together);
      const std::vector<Entry> some(entries.begin() + static_cast<std::ptrdiff_t>(first),
                                    entries.begin() + static_cast<std::ptrdiff_t>(last));
      if (together == 1) {
        backend.begin(some.front());
        backend.finish(some.front().position);
        continue;
      }
      std::vector<BatchPosition> positions;
      for (const Entry& entry : some) positions.push_back(entry.position);
      joint.begin_together(some);
      joint.finish_together(positions);
    }
    backend.step(WindowIndex{1});
    return thread_cpu_seconds() - begin;
  }

  /// Largest difference of two states' numbers.
  static double difference(const StageState& a, const StageState& b) {
    double most = 0;
    for (const auto& [name, tensor] : a.tensors) {
      most = std::max(most, tensor.sub(b.tensors.at(name)).abs().max().item<double>());
    }
    return most;
  }

  [[nodiscard]] BenchResult measure(StageBackend& backend, const std::vector<Entry>& entries) const {
    // A first window costs more, and leaves LoRA matrices none of whose gradients is zero.
    train(backend, backend.state(), entries, 1);
    const StageState start = backend.state();
    train(backend, start, entries, 1);
    const StageState expected = backend.state();
    std::vector<std::vector<double>> seconds(together_.size());
    std::vector<double> differences(together_.size(), 0);
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < together_.size(); ++i) {
        seconds[i].push_back(train(backend, start, entries, together_[i]));
        differences[i] = std::max(differences[i], difference(backend.state(), expected));
      }
    }
    BenchResult result;
    result.bench = "replay";
    for (std::size_t i = 0; i < together_.size(); ++i) {
      const auto [least, most] = std::minmax_element(seconds[i].begin(), seconds[i].end());
      result.rows.push_back({{"together", together_[i]},
                             {"cpu_seconds_per_window", median(seconds[i])},
                             {"least", *least},
                             {"most", *most},
                             {"share_of_first", median(seconds[i]) / median(seconds[0])},
                             {"same_bits", differences[i] == 0},
                             {"largest_difference", differences[i]}});
    }
    return result;
  }

  std::optional<std::filesystem::path> model_;
  std::uint64_t stages_ = 3;
  std::uint64_t batch_ = 1;
  std::uint64_t accumulate_ = 8;
  std::uint64_t tokens_ = 64;
  std::vector<std::uint64_t> together_{1, 2, 4, 8};
  std::uint64_t rounds_ = 5;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_bench_replay_command() {
  return std::make_unique<BenchReplayCommand>();
}

}  // namespace zerolock
