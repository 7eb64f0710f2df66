/// zerolock report: a run's folder, or a bench's results, as one HTML page.

#include <cstdio>
#include <system_error>

#include "apps/command/bench_report.hpp"
#include "apps/command/command.hpp"
#include "apps/command/run_report.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {

namespace {

namespace fs = std::filesystem;

class ReportCommand : public Command {
 public:
  [[nodiscard]] const char* name() const override { return "report"; }
  [[nodiscard]] const char* summary() const override {
    return "a run's folder, or a bench's results, as one HTML page that needs nothing else";
  }
  [[nodiscard]] const char* example() const override {
    return "zerolock report runs/topics\n  zerolock report runs/memory --out memory.html";
  }

  void declare(OptionTable& table) override {
    table.positional("RUN", path_, "run folder, bench folder, or a bench's JSON file");
    table.path("out", out_, "the page; otherwise report.html in the folder, or beside the file",
               OptionTable::Kept::on_command_line_only);
  }

  int run(OptionTable&) override {
    if (!path_)
      throw InputError("report", "needs a RUN: a run folder, a bench folder, or a bench's JSON file");
    std::error_code error;
    if (!fs::exists(*path_, error)) throw InputError(path_->string(), "there is no such file or folder");
    const bool folder = fs::is_directory(*path_, error);
    const bool is_run = folder && fs::exists(*path_ / "run.json", error);
    const std::string page = is_run ? run_report(RunFolder(*path_)) : bench_report(*path_);
    const fs::path target =
        out_.value_or(folder ? *path_ / "report.html" : fs::path(*path_).replace_extension(".html"));
    if (!fs::is_directory(fs::absolute(target).parent_path(), error)) {
      throw InputError("--out " + target.string(), "its folder does not exist");
    }
    if (fs::is_directory(target, error)) {
      throw InputError("--out " + target.string(), "is a folder; name the page's file");
    }
    write_text_file(target, page);
    std::printf("%s\n", target.c_str());
    return status_done;
  }

 private:
  std::optional<fs::path> path_;
  std::optional<fs::path> out_;
};

}  // namespace

std::unique_ptr<Command> make_report_command() {
  return std::make_unique<ReportCommand>();
}

}  // namespace zerolock
