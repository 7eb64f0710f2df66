#pragma once
/// A folder for one test with a tiny model that has a tokenizer, and rows to train it on.

#include <filesystem>
#include <string>
#include <vector>

#include "apps/command/temporary_folder.hpp"

namespace zerolock::testing {

class TinyWorkplace {
 public:
  /// Copies the fixture model of that name and adds a byte-level tokenizer with one token for each of the
  /// words " up", " no", " hi" and " go".
  explicit TinyWorkplace(const std::string& model = "tiny-llama");

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] std::string text_path(const std::string& name) const { return path(name).string(); }
  [[nodiscard]] std::string model() const { return text_path("model"); }
  [[nodiscard]] std::string rows() const { return text_path("rows.csv"); }
  /// Arguments of a training run in that folder, with the rows above and, unless `more` has one, no recipe.
  [[nodiscard]] std::vector<std::string> train(const std::string& out,
                                               const std::vector<std::string>& more = {}) const;

 private:
  TemporaryFolder folder_;
};

void write_text(const std::filesystem::path& file, const std::string& text);
std::string read_text(const std::filesystem::path& file);
/// A list with another one behind it.
std::vector<std::string> operator+(std::vector<std::string> left, const std::vector<std::string>& right);

}  // namespace zerolock::testing
