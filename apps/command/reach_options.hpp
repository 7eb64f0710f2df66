#pragma once
/// How a command from aside, that is no executor, reaches the coordinator of a run.

#include <filesystem>
#include <optional>
#include <string>

#include "apps/command/cluster_options.hpp"

namespace zerolock {

struct ReachOptions {
  std::string coordinator;                   // HOST:PORT
  std::optional<std::filesystem::path> run;  // instead: the folder of a run of this machine's processes
  std::string name;                          // of the executor whose certificate to show
  ClusterOptions cluster;                    // without a link

  void declare(OptionTable& table);
  /// With the coordinator's certificate where that is here, else with that of executor `name`; without
  /// certificates under the name `plain_name`. Throws InputError.
  [[nodiscard]] DialOptions dial(const std::string& plain_name) const;
};

}  // namespace zerolock
