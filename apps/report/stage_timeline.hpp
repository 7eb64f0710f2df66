#pragma once
/// What stages did when, as a picture of bounded size however long the run was.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/report/span_look.hpp"

namespace zerolock {

/// Columns of time, one row for each stage, each cell coloured by what took most of it. Columns grow twice as
/// wide whenever the run outgrows them, so spans may come in any order and are not kept.
class StageTimeline {
 public:
  static constexpr std::size_t columns_max = 1024;
  static constexpr std::size_t stages_max = 64;  // that are drawn
  /// `kind`: a name of span_looks. Seconds from the start of the picture. Unknown kinds and negative times
  /// are left out.
  void add(std::size_t stage, std::string_view kind, double begin, double end);

  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Seconds that one column stands for.
  [[nodiscard]] double column_seconds() const { return column_seconds_; }
  /// The picture; time is written from `origin` seconds on.
  [[nodiscard]] std::string svg(const std::string& title, double origin = 0) const;

 private:
  using Cell = std::array<float, span_looks.size()>;  // seconds of each kind

  void widen_to(double end);
  [[nodiscard]] std::string row_svg(std::size_t stage, double y, double column_width) const;

  double column_seconds_ = 1e-3;
  double end_ = 0;
  std::vector<std::vector<Cell>> rows_;  // by stage; as many cells as it has needed
};

}  // namespace zerolock
