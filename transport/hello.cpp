#include "transport/hello.hpp"

#include <openssl/crypto.h>

#include <algorithm>

namespace zerolock {

namespace {

constexpr std::size_t node_name_max = 64;
constexpr std::size_t short_text_max = 256;
constexpr std::size_t reason_max = 1024;

/// Texts of a peer end up in logs and terminals: one line of printable characters.
void check_text(const std::string& text, std::size_t most, const std::string& name) {
  if (text.size() > most) {
    throw WireError(name + " has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(most) +
                    " are allowed");
  }
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
  if (!printable) throw WireError(name + " holds a control character");
}

void check_node(const NodeIdentity& node, const std::string& where) {
  if (node.role != NodeRole::coordinator && node.role != NodeRole::executor) {
    throw WireError(where + ": unknown role " + std::to_string(static_cast<int>(node.role)));
  }
  if (!is_node_name(node.name)) throw WireError(where + ": the node's name is not one");
}

}  // namespace

std::string to_string(NodeRole role) {
  return role == NodeRole::coordinator ? "coordinator" : "executor";
}

std::string to_string(const NodeIdentity& node) {
  return to_string(node.role) + " " + node.name;
}

bool is_node_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= node_name_max && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string purpose_text(const Hello& hello) {
  switch (hello.purpose) {
    case ConnectionPurpose::control:
      return "control";
    case ConnectionPurpose::boundary:
      return "boundary " + std::to_string(hello.boundary.value);
    case ConnectionPurpose::weights:
      return "weights";
    case ConnectionPurpose::status:
      return "status";
    case ConnectionPurpose::inject:
      return "inject";
  }
  return "unknown";
}

Hello read_hello(std::span<const std::byte> metadata) {
  auto hello = from_wire<Hello>(metadata, "hello");
  check_node(hello.node, "hello");
  if (hello.purpose < ConnectionPurpose::control || hello.purpose > ConnectionPurpose::inject) {
    throw WireError("hello: unknown purpose " + std::to_string(static_cast<int>(hello.purpose)));
  }
  check_text(hello.program_version, short_text_max, "hello: the program's version");
  check_text(hello.run, short_text_max, "hello: the run's id");
  return hello;
}

Welcome read_welcome(std::span<const std::byte> metadata) {
  auto welcome = from_wire<Welcome>(metadata, "welcome");
  check_node(welcome.node, "welcome");
  check_text(welcome.program_version, short_text_max, "welcome: the program's version");
  check_text(welcome.run, short_text_max, "welcome: the run's id");
  return welcome;
}

Refusal read_refusal(std::span<const std::byte> metadata) {
  auto refusal = from_wire<Refusal>(metadata, "refusal");
  check_text(refusal.reason, reason_max, "refusal: the reason");
  return refusal;
}

bool same_secret(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace zerolock
