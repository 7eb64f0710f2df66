#pragma once
/// What the coordinator must not forget: append-only records of what it has promised and learnt.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/placement_core.hpp"
#include "tensors/base/indices.hpp"

namespace zerolock {

struct JournalRecord {
  enum class Kind : std::uint8_t {
    run_started,      // text: the session; window: the one before the first. All before it is over
    stage_placed,     // stage, text: on this node; window: its placement. Written before the node is told
    windows_granted,  // up to window; written before the grant is announced
    stage_durable,    // stage, window
    run_ends_at,      // window; an orderly stop
    run_finished,     // window
    run_failed,       // text: the chain of causes
  } kind = Kind::run_started;
  StageIndex stage;
  WindowIndex window;
  std::string text;

  bool operator==(const JournalRecord&) const = default;
};

/// Where records go. Used by one actor. An append that returns has been kept, to the degree the medium
/// allows.
class Journal {
 public:
  virtual ~Journal() = default;
  /// Throws RunError, naming the medium, if the record cannot be kept.
  virtual void append(const JournalRecord& record) = 0;
  /// All records so far, oldest first.
  [[nodiscard]] virtual std::vector<JournalRecord> records() const = 0;
};

/// Records that last as long as the process.
std::unique_ptr<Journal> make_memory_journal();

/// What the records of a journal come to, from the last run_started on.
struct JournalState {
  struct Placed {
    std::string node;
    Placement placement;

    bool operator==(const Placed&) const = default;
  };
  std::string session;
  WindowIndex before_first;
  std::optional<WindowIndex> granted;
  std::optional<WindowIndex> ends_at;
  std::map<StageIndex, WindowIndex> durable;  // the last of each stage
  std::map<StageIndex, Placed> placed;        // the latest of each stage
  bool over = false;                          // it finished or failed: nobody waits for it
};
/// None: no run has started.
std::optional<JournalState> replay(const std::vector<JournalRecord>& records);

}  // namespace zerolock
