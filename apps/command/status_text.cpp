#include "apps/command/status_text.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "apps/command/option_table.hpp"
#include "apps/command/progress_display.hpp"

namespace zerolock {

namespace {

using Row = std::vector<std::string>;

template <class Value>
std::string formatted(const char* pattern, Value value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

/// Other machines' words must not command the terminal.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      '?');
  return text;
}

std::string loss_text(const StageStatus& stage) {
  return stage.task_loss ? formatted("%.4f", *stage.task_loss) : "-";
}

/// Micro-batches that wait in a buffer, of those that it holds.
std::string queue_text(const StageStatus& stage, std::uint64_t StageQueues::*waiting,
                       std::uint64_t StageQueues::*held) {
  if (!stage.queues) return "-";
  return std::to_string((*stage.queues).*waiting) + "/" + std::to_string((*stage.queues).*held);
}

std::string layers_text(const LayerRange& layers) {
  return std::to_string(layers.first) + "-" + std::to_string(layers.last - 1);
}

std::string memory_text(std::uint64_t bytes) {
  return bytes == 0 ? "-" : formatted("%.1f GiB", static_cast<double>(bytes) / 0x1p30);
}

std::string rate_text(double gigaflops) {
  return gigaflops == 0 ? "-" : formatted("%.0f GFLOP/s", gigaflops);
}

std::string stages_text(const std::vector<StageIndex>& stages) {
  Row numbers;
  for (const StageIndex stage : stages) numbers.push_back(std::to_string(stage.value));
  return numbers.empty() ? "-" : joined(numbers, " ");
}

/// Columns as wide as their widest text, two blanks apart.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string executors_text(const RunStatus& status) {
  std::string text;
  for (const ExecutorState state : executor_states) {
    const auto count = std::count_if(status.executors.begin(), status.executors.end(),
                                     [state](const ExecutorStatus& each) { return each.state == state; });
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + to_string(state);
  }
  return text.empty() ? "0 joined" : text;
}

}  // namespace

std::string status_line(const RunStatus& status) {
  std::string line = to_string(status.phase);
  if (status.phase == RunPhase::waiting) {
    line += " for " + std::to_string(status.executors_wanted) + " executors";
  } else {
    line += ": window " + std::to_string(status.windows_done.value) + " of " +
            std::to_string(status.windows_last.value);
    line += " | " + formatted("%.1f", status.examples_per_second) + " examples/s | loss";
    for (const StageStatus& stage : status.stages) line += " " + loss_text(stage);
    line += " | waiting";
    for (const StageStatus& stage : status.stages) {
      line += " " + (stage.queues ? std::to_string(stage.queues->inbound_waiting) : "-");
    }
  }
  return line + " | executors: " + executors_text(status) + " | " +
         clock_text(std::chrono::duration<double>(status.seconds));
}

std::string status_table(const RunStatus& status) {
  std::vector<Row> stages{{"stage", "layers", "executor", "committed", "durable", "task loss", "in", "out",
                           "restarts", "incarnation"}};
  for (const StageStatus& stage : status.stages) {
    stages.push_back({std::to_string(stage.stage.value), layers_text(stage.layers),
                      stage.executor.empty() ? "-" : printable(stage.executor),
                      std::to_string(stage.committed.value), std::to_string(stage.durable.value),
                      loss_text(stage),
                      queue_text(stage, &StageQueues::inbound_waiting, &StageQueues::inbound_held),
                      queue_text(stage, &StageQueues::outbound_unsent, &StageQueues::outbound_held),
                      std::to_string(stage.restarts), to_string(stage.incarnation)});
  }
  std::string text = status.run_id.empty() ? "" : "run " + printable(status.run_id) + ", ";
  text += status_line(status) + "\n";
  if (!status.stages.empty()) text += "\n" + aligned(stages);
  if (status.executors.empty()) return text;
  std::vector<Row> executors{{"executor", "state", "stages", "address", "cores", "rate", "memory"}};
  for (const ExecutorStatus& executor : status.executors) {
    executors.push_back({printable(executor.name), to_string(executor.state), stages_text(executor.stages),
                         printable(executor.address), std::to_string(executor.cores),
                         rate_text(executor.gigaflops), memory_text(executor.memory_bytes)});
  }
  return text + "\n" + aligned(executors);
}

}  // namespace zerolock
