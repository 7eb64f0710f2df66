#include "apps/command/reach_options.hpp"

#include "apps/command/control_file.hpp"
#include "apps/command/run_folder.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

void ReachOptions::declare(OptionTable& table) {
  using Kept = OptionTable::Kept;
  table.text("coordinator", coordinator, "the coordinator's HOST:PORT");
  table.path("run", run, "instead: the folder of a run with --placement processes, on this machine",
             Kept::on_command_line_only);
  table.path("tls", cluster.tls, "folder with a certificate of the cluster, made by zerolock certs",
             Kept::on_command_line_only);
  table.flag("insecure", cluster.insecure, "allow plain connections beyond this machine",
             Kept::on_command_line_only);
  cluster.declare_token(table);
  table.text("name", name, "of the executor whose certificate to show, where --tls holds several");
}

DialOptions ReachOptions::dial(const std::string& plain_name) const {
  if (run && (!coordinator.empty() || cluster.tls || cluster.insecure || !cluster.token.empty())) {
    throw InputError("--run",
                     "says by itself where and how: without --coordinator, --tls, --insecure, --token");
  }
  if (!run && coordinator.empty()) {
    throw InputError("--coordinator", "is required: HOST:PORT; or --run, for processes of this machine");
  }
  std::error_code ignored;
  const bool is_coordinator =
      cluster.tls && name.empty() && std::filesystem::exists(*cluster.tls / "coordinator.pem", ignored);
  DialOptions dial;
  if (run) {
    ControlPoint point = read_control_file(RunFolder(*run).control());
    dial.address = point.address;
    dial.hello.token = point.token;
  } else {
    dial.address = parse_address(coordinator, "--coordinator");
    dial.hello.token = cluster.shared_token();
  }
  dial.security = cluster.security(is_coordinator ? NodeRole::coordinator : NodeRole::executor, name);
  dial.hello.node = dial.security.identity().value_or(NodeIdentity{NodeRole::executor, plain_name});
  dial.peer = {NodeRole::coordinator, std::nullopt};
  return dial;
}

}  // namespace zerolock
