#pragma once
/// What coordinator and executors are told about the network between them.

#include <filesystem>
#include <optional>
#include <string>

#include "apps/command/option_table.hpp"
#include "transport/link_profile.hpp"
#include "transport/network.hpp"
#include "transport/security.hpp"

namespace zerolock {

/// The environment variable that holds the run's token, where it shall not stand on a command line.
inline constexpr const char* token_variable = "ZEROLOCK_TOKEN";

struct ClusterOptions {
  std::optional<std::filesystem::path> tls;  // a folder made by zerolock certs
  bool insecure = false;                     // plain connections beyond loopback
  std::string token;
  std::string link = "local";

  void declare(OptionTable& table);
  /// --token alone, for a command that declares the others itself. Never part of a configuration.
  void declare_token(OptionTable& table);
  /// Reads the certificates. Throws InputError.
  [[nodiscard]] Security security(NodeRole role, const std::string& node) const;
  /// --token or the environment's; empty if there is none.
  [[nodiscard]] std::string shared_token() const;
  [[nodiscard]] LinkProfile link_profile() const;
};

/// A token that nobody guesses.
std::string new_token();

}  // namespace zerolock
