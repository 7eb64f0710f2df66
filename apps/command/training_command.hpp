#pragma once
/// What the commands that train have in common: everything but where the stages are.

#include <functional>
#include <set>
#include <string>

#include "apps/command/cluster_runner.hpp"
#include "apps/command/command.hpp"
#include "apps/command/training_session.hpp"

namespace zerolock {

class TrainingCommand : public Command {
 public:
  void declare(OptionTable& table) override;
  int run(OptionTable& table) override;

 protected:
  /// Decides what the options leave open, before they are completed. Throws InputError.
  virtual void prepare(TrainOptions&) {}
  /// Cuts the layers where the options have left that to the command. False: it was told to stop meanwhile.
  virtual bool settle_partition(TrainOptions&, const TrainingSources&) { return true; }
  /// Called once options and inputs are known to be good, before anything is written. What the runner refers
  /// to outlives it.
  virtual ClusterRunner runner(const TrainingInputs& inputs, const RunFolder& folder,
                               const RunRecord& record) = 0;
  [[nodiscard]] const TrainOptions& options() const { return options_; }
  /// Whether the flag (without dashes) was said for this session, and not by the file of an earlier one.
  [[nodiscard]] bool on_command_line(const std::string& flag) const {
    return on_command_line_.count(flag) > 0;
  }
  /// What a command line that resumes a run must say besides --resume; nothing, or words with a blank before.
  [[nodiscard]] virtual std::string resume_words() const { return {}; }
  /// Whether this command can go on with a run whose latest session another one began.
  [[nodiscard]] virtual bool takes_over_from(const std::string&) const { return false; }

 private:
  [[nodiscard]] std::function<bool(const std::string&)> by_hand(const OptionTable& table) const;
  void read_configuration(OptionTable& table);
  void say_what_is_trained(const TrainingInputs& inputs, const StartingPoint& start) const;
  int train(const TrainingInputs& inputs, const RunFolder& folder, StartingPoint start,
            const ClusterRunner& run) const;

  TrainOptions options_;
  std::set<std::string> on_command_line_;  // flags without their dashes
};

}  // namespace zerolock
