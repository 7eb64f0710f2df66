#pragma once
/// Faults as data: what is to go wrong, where, and how often.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/core/fault_point.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

enum class FaultKind : std::uint8_t {
  throws,              // the actor that is there throws
  kill,                // that actor is killed
  hang,                // its thread stands still: for `seconds`, or for good
  sigkill,             // its process is killed
  sigstop,             // its process is stopped, and continued after `seconds`
  drop_link,           // the data connections of its process are closed
  corrupt_frame,       // a byte of the next entry that its process sends is flipped on the wire
  corrupt_checkpoint,  // a bit of the stage's newest checkpoint is flipped, and the actor throws
  disk_full,           // the next `times` writes below the stage's checkpoints find the disk full
  release,             // threads of its process that hang go on; ordered while it runs, at no place
};
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::throws;
  StageIndex stage;
  FaultPoint point = FaultPoint::backward;
  std::optional<WindowIndex> window;         // none: any
  std::optional<std::uint64_t> micro_batch;  // none: any; not looked at where a window comes only once
  std::uint64_t times = 1;                   // it happens; disk_full: writes that fail
  std::chrono::milliseconds length{0};       // of hang and sigstop; 0: hang for good, sigstop for 3 s

  bool operator==(const Fault&) const = default;
};

/// "sigstop stage=1,window=3,micro_batch=2,at=backward,seconds=3": the kind, then its place. `phase` is
/// another word for `at`. Also the form in which faults travel.
std::string to_string(const Fault& fault);
/// Reads that form. Throws InputError that begins with `where` and names the key and what is allowed.
Fault parse_fault(const std::string& text, const std::string& where);
FaultKind parse_fault_kind(const std::string& text, const std::string& where);
FaultPoint parse_fault_point(const std::string& text, const std::string& where);
/// Seconds, down to milliseconds. Throws InputError for what is not above 0 and at most a day.
std::chrono::milliseconds parse_fault_seconds(double seconds, const std::string& where);
/// Sets one key of a fault's place or length. Throws InputError that begins with `where`.
void set_fault_key(Fault& fault, const std::string& key, const std::string& value, const std::string& where);
const std::vector<std::string>& fault_keys();

/// Which faults are still to come. Plain state.
class FaultPlan {
 public:
  FaultPlan() = default;
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  void add(const Fault& fault) { faults_.push_back(fault); }
  /// What is to happen now that `stage` has come to `point` of `position`, in the order of the plan. Each has
  /// then happened once more.
  std::vector<Fault> reached(FaultPoint point, StageIndex stage, const BatchPosition& position);
  /// Those that have not happened as often as they should.
  [[nodiscard]] const std::vector<Fault>& outstanding() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

}  // namespace zerolock
