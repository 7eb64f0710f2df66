#pragma once
/// What the class column of a data set means.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source_row.hpp"

namespace zerolock {

/// Names of classes, in order.
class ClassLabels {
 public:
  /// The given names, else AG News' four for its layout, else the distinct classes of the rows, sorted (as
  /// numbers if all are). Empty if no row has a class. Throws InputError naming `where` for names that are
  /// empty or not distinct, and for a file of more than a thousand different classes.
  static ClassLabels choose(const std::vector<std::string>& given, bool is_ag_news,
                            const std::vector<SourceRow>& rows, std::string_view where);

  /// The class that a field names: by name, by name in another letter case, or by its number from 1.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view field) const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// The names in one line for a message.
  [[nodiscard]] std::string listed() const;

 private:
  explicit ClassLabels(std::vector<std::string> names) : names_(std::move(names)) {}

  std::vector<std::string> names_;
};

}  // namespace zerolock
