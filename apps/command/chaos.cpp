/// zerolock chaos: trains twice, without and with random faults, and compares the adapters bit by bit.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "apps/command/command.hpp"
#include "apps/command/fault_list.hpp"
#include "apps/command/text_file.hpp"
#include "apps/command/train_options.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

constexpr std::uint64_t faults_max = 10'000;
constexpr std::chrono::milliseconds stop_length{300};

/// Draws from one seed, the same everywhere.
class FaultDice {
 public:
  FaultDice(std::uint64_t seed, StageHosting placement) : engine_(seed) {
    if (placement != StageHosting::processes) return;
    for (const FaultKind kind :
         {FaultKind::sigkill, FaultKind::sigstop, FaultKind::drop_link, FaultKind::corrupt_frame}) {
      kinds_.push_back(kind);
    }
  }

  Fault draw(std::uint64_t stages, std::uint64_t windows, std::uint64_t micro_batches) {
    Fault fault;
    fault.kind = kinds_[below(kinds_.size())];
    fault.stage = StageIndex{below(stages)};
    fault.window = WindowIndex{1 + below(windows)};
    fault.micro_batch = below(micro_batches);
    fault.point = points_[below(points_.size())];
    if (fault.kind == FaultKind::sigstop) fault.length = stop_length;
    return fault;
  }

 private:
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }

  std::mt19937_64 engine_;
  std::vector<FaultKind> kinds_{FaultKind::throws, FaultKind::kill, FaultKind::corrupt_checkpoint,
                                FaultKind::disk_full};
  std::vector<FaultPoint> points_{FaultPoint::entry_received,  FaultPoint::forward_begin,
                                  FaultPoint::forward_end,     FaultPoint::entry_sent,
                                  FaultPoint::backward,        FaultPoint::step,
                                  FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename,
                                  FaultPoint::manifest,        FaultPoint::durable_ack};
};

/// Runs this program with the arguments, its stdout unheard. Returns its exit status.
int run_self(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "zerolock");
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const pid_t process = ::fork();
  if (process < 0) throw RunError("no process can be started");
  if (process == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
    ::execv("/proc/self/exe", words.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : status_failed;
}

class ChaosCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "chaos"; }
  [[nodiscard]] const char* summary() const override {
    return "train without and with random faults, and compare the adapters";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock chaos --seed 7 --faults 20 --placement processes --model "
           "SmolLM2-135M-Instruct.Q4_1.gguf "
           "--data topics.csv --windows 12 --out runs/chaos";
  }

  void declare(OptionTable& table) override {
    options_.declare(table);
    table.integer("faults", faults_, 1, faults_max, "random faults, drawn from --seed");
  }

  int run(OptionTable& table) override {
    if (options_.config) table.read(*options_.config);
    options_.complete(table);
    options_.require_own_losses("a run that is to survive faults");
    const std::filesystem::path out = *options_.out;
    std::filesystem::create_directories(out);
    write_text_file(out / "train.toml", training_options(table));
    if (const int status = train(out / "undisturbed", {}); status != status_done) return status;
    const std::vector<Fault> faults = draw(out / "undisturbed");
    write_text_file(out / "faults.toml", fault_file_text(faults));
    const int status = train(out / "disturbed", {"--faults", (out / "faults.toml").string()});
    return tell(faults, status);
  }

 private:
  /// What is given to `train`: everything but what only this command has.
  static std::string training_options(const OptionTable& table) {
    std::istringstream lines(table.to_toml());
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("faults = ") && !line.starts_with("out = ")) kept += line + "\n";
    }
    return kept;
  }

  [[nodiscard]] int train(const std::filesystem::path& run, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--config", (*options_.out / "train.toml").string(), "--out",
                                       run.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_self(arguments);
  }

  [[nodiscard]] std::vector<Fault> draw(const std::filesystem::path& run) const {
    const auto summary = nlohmann::json::parse(read_text_file(run / "summary.json"));
    FaultDice dice(options_.seed, options_.placement);
    std::vector<Fault> faults;
    while (faults.size() < faults_) {
      faults.push_back(dice.draw(summary.at("stages").size(), summary.at("windows").get<std::uint64_t>(),
                                 options_.accumulate));
    }
    return faults;
  }

  [[nodiscard]] int tell(const std::vector<Fault>& faults, int status) const {
    const auto weights = std::filesystem::path("adapter") / "adapter_model.safetensors";
    const bool same = status == status_done && read_text_file(*options_.out / "undisturbed" / weights) ==
                                                   read_text_file(*options_.out / "disturbed" / weights);
    nlohmann::ordered_json result = {{"faults", nlohmann::ordered_json::array()},
                                     {"finished", status == status_done},
                                     {"same_adapter", same}};
    for (const Fault& fault : faults) result["faults"].push_back(to_string(fault));
    if (options_.json) {
      std::printf("%s\n", result.dump().c_str());
    } else {
      for (const Fault& fault : faults) std::printf("%s\n", to_string(fault).c_str());
      std::printf("%s\n", status != status_done ? "the disturbed run did not finish"
                          : same                ? "the adapters are the same, bit by bit"
                                                : "the adapters differ");
    }
    return same ? status_done : status_failed;
  }

  TrainOptions options_;
  std::uint64_t faults_ = 10;
};

}  // namespace

std::unique_ptr<Command> make_chaos_command() {
  return std::make_unique<ChaosCommand>();
}

}  // namespace zerolock
