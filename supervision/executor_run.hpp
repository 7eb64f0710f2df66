#pragma once
/// An executor: joins a coordinator, runs the stages that it is given, and ends with the run.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "actors/core/fault_point.hpp"
#include "actors/core/membership_core.hpp"
#include "actors/remote/traffic.hpp"
#include "supervision/assignment.hpp"
#include "supervision/local_cluster.hpp"
#include "transport/network.hpp"

namespace zerolock {

/// What an executor has for the making of its backends.
struct Preparation {
  const Assignment& assignment;
  Network& network;               // to fetch what is missing with
  std::function<bool()> give_up;  // polled by whoever waits: the executor is about to leave
};

struct ExecutorEnd {
  bool finished = false;   // the run ended, or needed this executor no more
  bool bad_input = false;  // `failure` is the message of an InputError
  bool rejoin = false;     // others have its stages now: it may join again, with nothing
  std::string failure;     // the chain of causes
};

struct ExecutorPlan {
  std::string name;   // of the node
  ExecutorCard card;  // name, version, placement and data address are filled in

  Address coordinator;
  Security security = Security::plain();   // towards the coordinator and other executors
  std::string token;                       // of the run; needed without TLS
  Address listen;                          // for downstream stages of other executors; port 0: any
  std::optional<std::string> public_host;  // how others reach it; otherwise as `listen` says
  LinkProfile link;                        // of what it sends downstream

  std::filesystem::path work;  // its checkpoints; a folder of its own, see work_folder.hpp
  /// What makes the stages' backends, called in a stage's own thread, once for each assignment.
  std::function<BackendFactory(const Preparation&)> prepare;
  std::function<bool()> stop_requested;          // polled; leaves the run if it may
  std::function<void(const std::string&)> note;  // one line for the log; called by any thread
  FaultHook fault;                               // may be empty; beside those that the coordinator orders
  std::function<void(const std::string&)> note_fault;  // an injected fault is about to happen; else `note`
  TrafficWatch watch;                                  // of what crosses this process's edge
  /// Called instead of returning where a stage's thread hangs, which only the process's end can end. If it
  /// returns, the thread is waited for.
  std::function<void(const ExecutorEnd&)> abandon;
};

/// Blocks until the run has ended or cannot go on here. Throws InputError if it cannot listen, or
/// another executor has its work folder.
ExecutorEnd run_executor(const ExecutorPlan& plan);

/// Proportional set size of this process in bytes, which counts shared pages by their share; 0 if the system
/// does not tell. The second is the highest that the first has returned.
std::uint64_t process_bytes_now();
std::uint64_t process_bytes_peak();

}  // namespace zerolock
