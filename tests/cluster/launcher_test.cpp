// What configs/lan and scripts/cluster-up start, with stand-ins for ssh and Slurm.

#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "loopback_cluster.hpp"

using namespace zerolock::testing;
using nlohmann::json;

namespace {

std::string repository(const std::string& file) {
  return std::filesystem::weakly_canonical(std::filesystem::path(ZEROLOCK_TEST_FIXTURES) / ".." / ".." / file)
      .string();
}

/// A program in the workplace's folder of stand-ins.
void stand_in(const TinyWorkplace& place, const std::string& name, const std::string& script) {
  std::filesystem::create_directories(place.path("bin"));
  const std::filesystem::path file = place.path("bin") / name;
  write_text(file, "#!/bin/bash\n" + script);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

/// Runs a shell command in which $zerolock is the program, with stand-ins before what the machine has.
CommandOutput run_shell(const TinyWorkplace& place, const std::string& command,
                        const std::vector<std::string>& arguments) {
  const std::vector<std::string> launcher{
      "env", "PATH=" + place.text_path("bin") + ":" + std::string(std::getenv("PATH")), "bash", "-c",
      "zerolock=$0; " + command};
  return CommandProcess(arguments, launcher).finish();
}

/// What `train` trains with, as a coordinator's arguments without model, data and run.
const std::vector<std::string> options{"--labels", "up,no,hi,go", "--seq", "64",        "--batch",
                                       "2",        "--recipe",    "none",  "--windows", "4"};

/// A port that was free a moment ago.
std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  REQUIRE(::bind(socket, address, sizeof own) == 0);
  REQUIRE(::getsockname(socket, address, &length) == 0);
  ::close(socket);
  return std::to_string(ntohs(own.sin_port));
}

std::string adapter_of_threads(const TinyWorkplace& place, const std::string& stages) {
  const json summary = summary_of(run_zerolock(
      place.train("threads", std::vector<std::string>{"--json", "--windows", "4", "--stages", stages})));
  return summary["adapter_sha256"].get<std::string>();
}

std::string adapter_in(const TinyWorkplace& place, const std::string& run) {
  return json::parse(read_text(place.path(run) / "summary.json"))["adapter_sha256"].get<std::string>();
}

}  // namespace

TEST_CASE("the Slurm job trains on the nodes that it is given") {
  const TinyWorkplace place;
  stand_in(place, "hostname", R"(if [ "$1" = -i ]; then echo 127.0.0.1; else echo "${NODE:-node-1}"; fi)");
  stand_in(place, "srun", R"([ "$1" = --exclusive ] || exit 2
shift
for node in $(seq "$SLURM_NNODES"); do NODE=node-$node "$@" & done
wait)");
  const CommandOutput output =
      run_shell(place,
                "export ZEROLOCK=$zerolock SLURM_NNODES=2 PORT=" + free_port() + " MODEL=" + place.model() +
                    " DATA=" + place.rows() + " RUN=" + place.text_path("job") +
                    " TMPDIR=" + place.text_path("scratch") + "; exec bash " +
                    repository("configs/lan/slurm-job.sh") + " \"$@\"",
                options);
  INFO(output.err);
  REQUIRE(output.status == 0);
  CHECK(adapter_in(place, "job") == adapter_of_threads(place, "2"));
}

TEST_CASE("cluster-up trains on the hosts of its file") {
  const TinyWorkplace place;
  // ssh -tt DESTINATION COMMAND
  stand_in(place, "remote-shell", R"([ "$1" = -tt ] || exit 2
exec bash -c "$3")");
  const CommandOutput made = run_zerolock(
      {"certs", "--out", place.text_path("certificates"), "--hosts", "desk=127.0.0.1,laptop=127.0.0.1"});
  REQUIRE(made.status == 0);
  write_text(place.path("hosts"),
             "# two devices\ndesk user@desk 127.0.0.1:0\nlaptop user@laptop 127.0.0.1:0\n");
  const std::string up =
      "export ZEROLOCK=$zerolock ZEROLOCK_REMOTE=$zerolock ZEROLOCK_SSH=remote-shell HOME=" +
      place.text_path("home") + " TMPDIR=" + place.text_path("scratch") + "; mkdir -p $TMPDIR; exec " +
      repository("scripts/cluster-up") + " " + place.text_path("hosts") + " \"$@\"";
  const std::vector<std::string> job = std::vector<std::string>{"--listen", "127.0.0.1:" + free_port(),
                                                                "--tls",    place.text_path("certificates"),
                                                                "--model",  place.model(),
                                                                "--data",   place.rows(),
                                                                "--out",    place.text_path("job"),
                                                                "--stages", "2"} +
                                       options;
  const CommandOutput output =
      run_shell(place, "export ZEROLOCK_CERTIFICATES=" + place.text_path("certificates") + "; " + up, job);
  INFO(output.err);
  REQUIRE(output.status == 0);
  CHECK(adapter_in(place, "job") == adapter_of_threads(place, "2"));
  CHECK(std::filesystem::is_empty(place.path("scratch")));
}

TEST_CASE("cluster-up gives up when an executor ends before it has joined") {
  const TinyWorkplace place;
  stand_in(place, "remote-shell", R"(case $2 in *laptop) echo 'no route to laptop'; exit 255 ;; esac
exec bash -c "$3")");
  const std::string certificates = place.text_path("certificates");
  const CommandOutput made =
      run_zerolock({"certs", "--out", certificates, "--hosts", "desk=127.0.0.1,laptop=127.0.0.1"});
  REQUIRE(made.status == 0);
  write_text(place.path("hosts"), "desk user@desk 127.0.0.1:0\nlaptop user@laptop 127.0.0.1:0\n");
  const std::string up =
      "export ZEROLOCK=$zerolock ZEROLOCK_REMOTE=$zerolock ZEROLOCK_SSH=remote-shell ZEROLOCK_CERTIFICATES=" +
      certificates + " HOME=" + place.text_path("home") + " TMPDIR=" + place.text_path("scratch") +
      "; mkdir -p $TMPDIR; exec " + repository("scripts/cluster-up") + " " + place.text_path("hosts") +
      " \"$@\"";
  const CommandOutput output = run_shell(
      place, up,
      std::vector<std::string>{"--listen", "127.0.0.1:" + free_port(), "--tls", certificates, "--model",
                               place.model(), "--data", place.rows(), "--out", place.text_path("job")} +
          options);
  INFO(output.err);
  CHECK(output.status == 1);
  CHECK(output.error_lines().back() ==
        "cluster-up: executor laptop ended before it joined: no route to laptop");
  CHECK(std::filesystem::is_empty(place.path("scratch")));
}

TEST_CASE("the systemd unit says nothing that systemd does not know") {
  const TinyWorkplace place;
  if (run_shell(place, "command -v systemd-analyze", {}).status != 0) {
    WARN("skipped: systemd-analyze is not here");
    return;
  }
  std::string unit = read_text(repository("configs/lan/zerolock-executor.service"));
  const std::string program = "/usr/local/bin/zerolock";
  const std::size_t at = unit.find(program);
  REQUIRE(at != std::string::npos);
  write_text(place.path("zerolock-executor.service"), unit.replace(at, program.size(), ZEROLOCK_BINARY));
  const CommandOutput verified =
      run_shell(place, "systemd-analyze verify " + place.text_path("zerolock-executor.service"), {});
  CHECK(verified.status == 0);
  CHECK(verified.err.empty());
}
