#include "supervision/fault_injector.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>

#include "actors/checkpoint_files.hpp"
#include "actors/fault_call.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

constexpr std::chrono::milliseconds stop_length{3000};  // unless the fault says how long

/// Stops this process; a process that belongs to nobody continues it. It closes what it has inherited, so
/// that sockets end with this process if that is killed meanwhile, and calls only what is allowed between
/// fork and exec.
void stop_this_process(std::chrono::milliseconds length) {
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw RunError("no process can be started that would continue this one");
  if (child == 0) {
    if (::fork() != 0) ::_exit(0);
    ::close_range(0, ~0U, 0);
    timespec wait{length.count() / 1000, (length.count() % 1000) * 1'000'000};
    while (::nanosleep(&wait, &wait) != 0 && errno == EINTR) {
    }
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::kill(self, SIGSTOP);
}

/// Flips a bit in the middle of the newest complete checkpoint's state.
void damage_newest_checkpoint(const std::filesystem::path& root, StageIndex stage) {
  const auto windows = checkpoint_windows(root, stage);
  for (auto window = windows.rbegin(); window != windows.rend(); ++window) {
    if (!verify_checkpoint(root, stage, *window).empty()) continue;
    const auto file = checkpoint_folder(root, stage, *window) / "state.safetensors";
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
    stream.seekg(middle);
    const int byte = stream.get();
    stream.seekp(middle);
    stream.put(static_cast<char>(byte ^ 1));
    stream.close();
    if (!stream) throw RunError(file.string() + ": cannot be damaged");
    return;
  }
}

}  // namespace

FaultInjector::FaultInjector(std::vector<Fault> faults, FaultTargets targets)
    : targets_(std::move(targets)),
      plan_(std::move(faults)),
      file_faults_([this](FileOperation operation, const std::filesystem::path& file) {
        return judge(operation, file);
      }) {}

FaultInjector::~FaultInjector() {
  release();
}

FaultHook FaultInjector::hook() {
  return [this](FaultPoint point, StageIndex stage, Incarnation, const BatchPosition& position) {
    reached(point, stage, position);
  };
}

void FaultInjector::add(const Fault& fault) {
  if (fault.kind == FaultKind::release) {
    release();
    return;
  }
  const std::lock_guard lock(mutex_);
  plan_.add(fault);
}

void FaultInjector::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  released_changed_.notify_all();
}

std::vector<Fault> FaultInjector::outstanding() const {
  const std::lock_guard lock(mutex_);
  return plan_.outstanding();
}

std::uint64_t FaultInjector::happened() const {
  const std::lock_guard lock(mutex_);
  return happened_;
}

void FaultInjector::reached(FaultPoint point, StageIndex stage, const BatchPosition& position) {
  std::vector<Fault> due;
  {
    const std::lock_guard lock(mutex_);
    due = plan_.reached(point, stage, position);
    happened_ += due.size();
  }
  for (const Fault& fault : due) {
    const std::string where = std::string(to_string(fault.kind)) + " at " + std::string(to_string(point)) +
                              " of stage " + std::to_string(stage.value) + ", " + to_string(position);
    if (targets_.note) targets_.note("injected fault: " + where);
    carry_out(fault, where);
  }
}

void FaultInjector::carry_out(const Fault& fault, const std::string& where) {
  switch (fault.kind) {
    case FaultKind::throws:
      throw RunError("an injected fault: " + where);
    case FaultKind::kill:
      throw KillRequested();
    case FaultKind::hang:
      return hang(fault.length);
    case FaultKind::release:
      return release();
    case FaultKind::sigkill:
      ::kill(::getpid(), SIGKILL);
      return;
    case FaultKind::sigstop:
      return stop_this_process(fault.length.count() == 0 ? stop_length : fault.length);
    case FaultKind::drop_link:
      if (!targets_.drop_links) throw RunError("there is no link that could be dropped: " + where);
      return targets_.drop_links(fault.stage);
    case FaultKind::corrupt_frame:
      if (!targets_.corrupt_next_frame) throw RunError("there is no frame that could be corrupted: " + where);
      return targets_.corrupt_next_frame(fault.stage);
    case FaultKind::corrupt_checkpoint:
      damage_newest_checkpoint(targets_.checkpoints, fault.stage);
      throw RunError("an injected fault: " + where);
    case FaultKind::disk_full: {
      const std::lock_guard lock(mutex_);
      failing_writes_[fault.stage] += fault.times;
      return;
    }
  }
}

void FaultInjector::hang(std::chrono::milliseconds length) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return released_; };
  if (length.count() == 0) {
    released_changed_.wait(lock, over);
  } else {
    released_changed_.wait_for(lock, length, over);
  }
}

FileVerdict FaultInjector::judge(FileOperation operation, const std::filesystem::path& file) {
  if (operation != FileOperation::write) return {};
  const std::lock_guard lock(mutex_);
  for (auto& [stage, left] : failing_writes_) {
    const std::string folder = stage_checkpoint_folder(targets_.checkpoints, stage).string() + "/";
    if (left == 0 || !file.string().starts_with(folder)) continue;
    --left;
    return {ENOSPC};
  }
  return {};
}

}  // namespace zerolock
