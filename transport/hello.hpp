#pragma once
/// The first words of a connection: who dials, for what, and whether the listener agrees.

#include <cstdint>
#include <string>

#include "tensors/base/indices.hpp"
#include "transport/wire_archive.hpp"

namespace zerolock {

/// What a process is in the cluster. A certificate says it, or without TLS the hello alone.
enum class NodeRole : std::uint8_t { coordinator = 1, executor };
std::string to_string(NodeRole role);

/// A node of the cluster. Names are 1 to 64 letters, digits and "-_.".
struct NodeIdentity {
  NodeRole role = NodeRole::executor;
  std::string name;

  bool operator==(const NodeIdentity&) const = default;
};
/// "executor node-a"
std::string to_string(const NodeIdentity& node);
[[nodiscard]] bool is_node_name(std::string_view name);

/// What a connection is for.
enum class ConnectionPurpose : std::uint8_t { control = 1, boundary, weights, status, inject };

/// dialler -> listener. At most `hello_bytes_max` bytes.
struct Hello {
  NodeIdentity node;            // the dialler
  std::string program_version;  // "0.1.0"
  std::string run;              // the run's id; empty: not known yet
  ConnectionPurpose purpose = ConnectionPurpose::control;
  StageIndex boundary;          // purpose boundary: the stage into which it leads
  std::uint64_t placement = 0;  // the same: which placement of that stage dials
  std::string token;            // the run's shared secret; empty where certificates do its work
};

/// "control", "boundary 2", "weights", "status", "inject"
std::string purpose_text(const Hello& hello);

/// listener -> dialler.
struct Welcome {
  NodeIdentity node;  // the listener
  std::string program_version;
  std::string run;  // the run's id
};

/// listener -> dialler, then the listener closes.
struct Refusal {
  std::string reason;  // one line for the user
};

inline constexpr std::uint32_t hello_bytes_max = 4096;

template <class Archive>
void serialize(Archive& archive, NodeIdentity& node) {
  archive(node.role, node.name);
}
template <class Archive>
void serialize(Archive& archive, Hello& hello) {
  archive(hello.node, hello.program_version, hello.run, hello.purpose, hello.boundary, hello.placement,
          hello.token);
}
template <class Archive>
void serialize(Archive& archive, Welcome& welcome) {
  archive(welcome.node, welcome.program_version, welcome.run);
}
template <class Archive>
void serialize(Archive& archive, Refusal& refusal) {
  archive(refusal.reason);
}

/// from_wire with the enumerations, names and texts checked. Throw WireError.
Hello read_hello(std::span<const std::byte> metadata);
Welcome read_welcome(std::span<const std::byte> metadata);
Refusal read_refusal(std::span<const std::byte> metadata);

/// Equal or not, in a time that depends on the lengths alone.
[[nodiscard]] bool same_secret(std::string_view left, std::string_view right);

}  // namespace zerolock
