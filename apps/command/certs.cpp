/// zerolock certs: a private authority for one cluster, and a certificate for each of its nodes.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/command/command.hpp"
#include "apps/command/log_options.hpp"
#include "tensors/base/error.hpp"
#include "transport/certificates.hpp"

namespace zerolock {

namespace {

/// "node-a" (a host that is also the node's name), or "NAME=HOST".
CertificateRequest executor_request(const std::string& item) {
  const std::size_t equals = item.find('=');
  const std::string name = item.substr(0, equals);
  const std::string host = equals == std::string::npos ? name : item.substr(equals + 1);
  if (!is_node_name(name)) {
    throw InputError("--hosts", "'" + name + "' cannot name a node: 1 to 64 letters, digits and '-_.'; " +
                                    "give NAME=HOST for other hosts");
  }
  return {{NodeRole::executor, name}, {host}};
}

class CertsCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "certs"; }
  [[nodiscard]] const char* summary() const override {
    return "a private authority and one TLS certificate for each node of a cluster";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock certs --out runs/certs --hosts laptop,desk=192.168.1.7";
  }

  void declare(OptionTable& table) override {
    table.path("out", out_, "folder for the certificates; one that is there is added to",
               OptionTable::Kept::on_command_line_only);
    table.list("hosts", hosts_, "executors: a host, or NAME=HOST, each");
    table.list("coordinator", coordinator_hosts_, "hosts of the coordinator");
    table.integer("days", days_, 1, 36500, "how long the certificates are valid");
    table.flag("json", json_, "print one JSON object", OptionTable::Kept::on_command_line_only);
    log_.declare(table);
  }

  int run(OptionTable& table) override {
    start_log(log_);
    if (!out_) throw InputError("certs", "needs --out, the folder to write to");
    if (hosts_.empty() && !table.given("coordinator")) {
      throw InputError("certs", "needs --hosts, the executors, or --coordinator");
    }
    std::vector<CertificateRequest> requests;
    for (const std::string& item : hosts_) requests.push_back(executor_request(item));
    // One coordinator to a cluster: later calls add executors.
    std::error_code ignored;
    if (table.given("coordinator") || !std::filesystem::exists(*out_ / "coordinator.pem", ignored)) {
      requests.push_back({{NodeRole::coordinator, "coordinator"}, coordinator_hosts_});
    }
    ValidityPeriod validity;
    validity.end = std::chrono::hours(24) * days_;
    make_certificates(*out_, requests, validity);
    print(requests);
    return status_done;
  }

 private:
  void print(const std::vector<CertificateRequest>& requests) const {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const CertificateRequest& request : requests) {
      const std::string stem = (*out_ / request.node.name).string();
      nodes.push_back({{"role", to_string(request.node.role)},
                       {"name", request.node.name},
                       {"certificate", stem + ".pem"},
                       {"key", stem + ".key"}});
      if (!json_)
        std::printf("%s: %s.pem, %s.key\n", to_string(request.node).c_str(), stem.c_str(), stem.c_str());
    }
    const std::string authority = (*out_ / "ca.pem").string();
    if (json_) {
      std::printf("%s\n", nlohmann::ordered_json{{"authority", authority}, {"nodes", nodes}}.dump().c_str());
      return;
    }
    std::printf("Each node needs %s and its own two files, no others. Keep %s where it is.\n",
                authority.c_str(), (*out_ / "ca.key").c_str());
  }

  std::optional<std::filesystem::path> out_;
  std::vector<std::string> hosts_;
  std::vector<std::string> coordinator_hosts_{"localhost", "127.0.0.1", "::1"};
  std::uint64_t days_ = 730;
  bool json_ = false;
  LogOptions log_;
};

}  // namespace

std::unique_ptr<Command> make_certs_command() {
  return std::make_unique<CertsCommand>();
}

}  // namespace zerolock
