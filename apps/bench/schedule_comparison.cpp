#include "apps/bench/schedule_comparison.hpp"

#include <ATen/Parallel.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "apps/bench/compared_schedules.hpp"
#include "apps/bench/constant_batches.hpp"
#include "apps/bench/filled_rows.hpp"
#include "apps/bench/results_folder.hpp"
#include "apps/command/random_model.hpp"
#include "apps/command/temporary_folder.hpp"
#include "apps/command/text_file.hpp"
#include "tensors/base/error.hpp"
#include "tensors/training/chunk_backend.hpp"
#include "tensors/training/simulated_backend.hpp"

namespace zerolock {

namespace {

constexpr std::int64_t simulated_width = 8;
constexpr std::uint64_t timeline_windows = 4;

SimulatedDurations durations_of(const PhaseSeconds& seconds, double speedup) {
  const auto time = [speedup](double taken) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(taken / speedup));
  };
  return {time(seconds.forward), time(seconds.backward), time(seconds.step), false};
}

std::string percentages(const std::vector<double>& shares) {
  constexpr std::size_t listed_max = 8;
  const auto text = [](double share) { return std::to_string(std::lround(share * 100)); };
  if (shares.size() > listed_max) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    return text(*least) + " to " + text(*most);
  }
  std::string all;
  for (const double share : shares) all += (all.empty() ? "" : " ") + text(share);
  return all;
}

std::string media_text(const std::vector<LinkSharing>& media) {
  std::vector<std::string> names;
  for (const LinkSharing sharing : media) names.emplace_back(to_string(sharing));
  return joined(names, ",");
}

std::vector<LinkSharing> parse_media(const std::string& text, const std::string& where) {
  const std::vector<LinkSharing> all{LinkSharing::way, LinkSharing::stage, LinkSharing::both};
  std::vector<LinkSharing> chosen;
  for (const std::string& name : split_list(text)) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](LinkSharing sharing) { return to_string(sharing) == name; });
    if (found == all.end())
      throw InputError(where, "'" + name + "' is no medium; allowed: " + media_text(all));
    chosen.push_back(*found);
  }
  if (chosen.empty()) throw InputError(where, "the list is empty; allowed: " + media_text(all));
  return chosen;
}

std::vector<double> quotients(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> result;
  for (std::size_t i = 0; i < above.size(); ++i) result.push_back(above[i] / below[i]);
  return result;
}

}  // namespace

void ComparisonOptions::declare(OptionTable& table) {
  declare_schedules(table, schedules, "schedules to compare, in turn, over full rows of --seq tokens");
  table.integer("rounds", rounds, 1, 1000, "of runs compared; medians are printed");
  table.choice("split", split,
               {{"same", SplitChoice::same}, {"tuned", SplitChoice::tuned}, {"both", SplitChoice::both}},
               "layers cut alike for all schedules, or for each one's slowest stage");
  table.choice("compute", compute,
               {{"auto", StageCompute::automatic},
                {"real", StageCompute::real},
                {"simulated", StageCompute::simulated}},
               "simulated: stages wait as long as the model's take here; auto: where cores are too few");
  table.real("speedup", speedup, {0, 1e6, true}, "simulated devices are so many times as fast as a core");
  table.parsed(
      "medium",
      [this](const std::string& value, const std::string& where) { media = parse_media(value, where); },
      [this] { return media_text(media); }, "per-way,per-stage,half-duplex",
      "what shares an imitated link's rate: nothing (as between processes), all that a stage sends, or both "
      "ways of a boundary");
  table.integer("calibration-runs", calibration_runs, 1, 1000,
                "of each kind of stage that is measured for simulated ones");
}

ScheduleComparison::ScheduleComparison(const TrainOptions& options, const ComparisonOptions& comparison,
                                       std::string bench)
    : options_(options), comparison_(comparison) {
  refuse_heads_of_rows(options, "a comparison");
  if (options.train_stages.kind != TrainedStages::Kind::all) {
    throw InputError("--train-stages", "a comparison trains all stages");
  }
  if (options.settings.embed_at == EmbedAt::source) {
    throw InputError("--embed-at", "a comparison's rows are token ids, which stage 0 embeds; leave it away");
  }
  const std::uint64_t windows = options.windows.value_or(1);
  if (windows < 3) throw InputError("--windows", "at least 3 windows are needed for a steady part");
  last_ = WindowIndex{windows};
  first_ = WindowIndex{std::max<std::uint64_t>(1, windows / 8)};
  static_cast<void>(parse_link_profile(options.link, "--link"));
  require_results_folder(options.out);
  model_ = ModelFiles::open(model_location(*options.model));
  result_.bench = std::move(bench);
}

bool ScheduleComparison::simulated(std::uint64_t stages) const {
  if (comparison_.compute != StageCompute::automatic) return comparison_.compute == StageCompute::simulated;
  return stages > std::max(1U, std::thread::hardware_concurrency());
}

TrainingSettings ScheduleComparison::settings() const {
  return options_.stage_settings(2, {}, last_.value);
}

StageCalibration& ScheduleComparison::calibration() {
  if (calibration_) return *calibration_;
  const auto rows =
      make_filled_rows({model_->config().vocabulary, static_cast<std::int64_t>(options_.rows.sequence_length),
                        options_.batch, 1, 1, options_.seed});
  calibration_ = std::make_unique<StageCalibration>(
      model_, comparison_.schedules, settings(), std::vector<Entry>{rows->make({WindowIndex{1}, 0})},
      options_.accumulate, static_cast<int>(comparison_.calibration_runs));
  return *calibration_;
}

std::vector<ScheduleComparison::Contender> ScheduleComparison::contenders(std::uint64_t stages) {
  const bool waits = simulated(stages);
  const auto even = [&] {
    return waits ? calibration().even_partition(stages)
                 : equal_partition(model_->config().layers, static_cast<std::int64_t>(stages));
  };
  if (!waits && static_cast<std::int64_t>(stages) > model_->config().layers) {
    throw InputError("stages", std::to_string(stages) + " are more than the model's " +
                                   std::to_string(model_->config().layers) +
                                   " layers; --compute simulated takes a deeper one");
  }
  if (waits && model_->config().layers < 3) {
    throw InputError("--model", "has too few layers to measure first, inner and last stages by");
  }
  std::vector<Contender> all;
  for (const SplitChoice split : {SplitChoice::same, SplitChoice::tuned}) {
    if (comparison_.split != SplitChoice::both && comparison_.split != split) continue;
    for (const TrainingSchedule schedule : comparison_.schedules) {
      Contender contender{schedule, split == SplitChoice::same ? "same" : "tuned", {}, {}, {}, {}};
      const bool given = split == SplitChoice::same && options_.layers.size() == stages;
      contender.partition = given                        ? options_.partition(model_->config().layers)
                            : split == SplitChoice::same ? even()
                                                         : calibration().tuned_partition(schedule, stages);
      if (waits) contender.seconds = calibration().seconds(schedule, contender.partition);
      for (std::size_t stage = 0; stage < contender.seconds.size() && stage < 16; ++stage) {
        const PhaseSeconds& taken = contender.seconds[stage];
        spdlog::info("{}, {} split, stage {} of {}: forward {:.4f} s, backward {:.4f} s, step {:.4f} s",
                     to_string(schedule), contender.split, stage, stages, taken.forward, taken.backward,
                     taken.step);
      }
      all.push_back(std::move(contender));
    }
  }
  return all;
}

BackendFactory ScheduleComparison::backends(const Contender& contender) const {
  const GradientReach reach = gradient_reach(contender.schedule);
  if (!contender.seconds.empty()) {
    return [&contender, reach, speedup = comparison_.speedup](StageIndex stage, MemoryAccount&) {
      return make_simulated_backend(stage, simulated_width,
                                    durations_of(contender.seconds.at(stage.value), speedup), false, reach);
    };
  }
  return [this, &contender, reach, used = settings_under(contender.schedule, settings())](
             StageIndex stage, MemoryAccount& account) {
    at::set_num_threads(1);
    return make_chunk_backend(model_, stage, contender.partition, used, account, reach);
  };
}

/// Of a micro-batch's hidden states, or of their gradient.
std::uint64_t ScheduleComparison::payload_bytes() const {
  const auto width = static_cast<std::uint64_t>(model_->config().width);
  const std::uint64_t rows = options_.batch * options_.rows.sequence_length;
  switch (options_.hidden_state_wire_type()) {
    case WireType::fp32:
      break;
    case WireType::bf16:
      return rows * width * 2;
    case WireType::int8:
      return rows * (width + 4);
  }
  return rows * width * 4;
}

/// From a stage to the next, if nothing else is on the way.
double ScheduleComparison::entry_seconds(const std::string& link) const {
  LinkSchedule way(parse_link_profile(link, "--link"));
  const LinkSchedule::TimePoint ready = LinkSchedule::TimePoint{} + std::chrono::hours(1);
  return std::chrono::duration<double>(way.transmit(ready, payload_bytes()) - ready).count();
}

std::vector<TraceSpan> ScheduleComparison::trace(const Contender& contender,
                                                 const ComparedNetwork& network) const {
  const bool waits = !contender.seconds.empty();
  const std::size_t stages = contender.partition.size();
  const auto batches =
      waits ? make_constant_batches(last_.value, options_.accumulate, options_.batch)
            : make_filled_rows({model_->config().vocabulary,
                                static_cast<std::int64_t>(options_.rows.sequence_length), options_.batch,
                                options_.accumulate, last_.value, options_.seed});
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  for (std::size_t stage = 0; stage < stages; ++stage) accounts.push_back(std::make_unique<MemoryAccount>());
  const TemporaryFolder folder;
  ClusterPlan plan;
  plan.run_id = "bench-" + result_.bench;
  plan.stages = stages;
  plan.schedule = contender.schedule;
  plan.last_window = last_;
  plan.depth = options_.depth;
  plan.buffer_bytes_max = options_.buffer_limit_mib * 1024 * 1024;
  plan.checkpoint_every = options_.checkpoint_every;
  plan.checkpoints = folder.path();
  std::vector<TraceSpan> spans;
  ClusterObserver observer;
  observer.span = [&spans](const TraceSpan& span) { spans.push_back(span); };
  const ImitatedNetwork imitated{parse_link_profile(network.link, "--link"), network.sharing,
                                 payload_bytes()};
  const auto never = [] { return false; };
  const ClusterOutcome outcome =
      imitated.profile.shapes()
          ? run_imitated_cluster(imitated, plan, batches, backends(contender), accounts, never, observer)
          : run_local_cluster(plan, batches, backends(contender), accounts, never, observer);
  if (outcome.kind != ClusterOutcome::Kind::finished) throw RunError("the run failed: " + outcome.failure);
  return spans;
}

std::string ScheduleComparison::text_of(const ComparedNetwork& network) {
  return network.link + (network.link == "local" ? "" : " " + std::string(to_string(network.sharing)));
}

void ScheduleComparison::run(Contender& contender, const ComparedNetwork& network) {
  const std::size_t stages = contender.partition.size();
  const std::vector<TraceSpan> spans = trace(contender, network);
  contender.figures.push_back(run_figures(spans, stages, first_, last_));
  const RunFigures& figures = contender.figures.back();
  contender.rates.push_back(figures.windows_per_second *
                            static_cast<double>(options_.batch * options_.accumulate));
  spdlog::info("{} stages, {}, {} split, {} {}: {:.3f} examples/s, utilisation {:.3f}", stages,
               to_string(contender.schedule), contender.split, network.link, to_string(network.sharing),
               contender.rates.back(), figures.utilisation());
  if (contender.rates.size() < comparison_.rounds) return;
  const WindowIndex until{std::min(last_.value, first_.value + timeline_windows)};
  timelines_.push_back({std::string(to_string(contender.schedule)) + ", " + contender.split + " split, " +
                            text_of(network) + (contender.seconds.empty() ? "" : ", simulated compute"),
                        stages, excerpt(spans, stages, first_, until)});
}

void ScheduleComparison::measure(std::uint64_t stages, const std::string& link) {
  timelines_.clear();
  const std::vector<Contender> all = contenders(stages);
  const bool shapes = parse_link_profile(link, "--link").shapes();
  for (const LinkSharing sharing : comparison_.media) {
    measure(all, {link, sharing});
    if (!shapes) break;  // what takes no time cannot be shared
  }
}

void ScheduleComparison::measure(std::vector<Contender> all, const ComparedNetwork& network) {
  for (std::uint64_t round = 0; round < comparison_.rounds; ++round) {
    for (Contender& contender : all) run(contender, network);
  }
  for (const Contender& contender : all) add_row(contender, network);
  add_ratios(all, network);
}

void ScheduleComparison::add_row(const Contender& contender, const ComparedNetwork& network) {
  const Spread rate = spread_of(contender.rates);
  std::vector<double> utilisations;
  std::vector<double> slowest;
  for (const RunFigures& figures : contender.figures) {
    utilisations.push_back(figures.utilisation());
    slowest.push_back(figures.busy_seconds[figures.slowest_stage()]);
  }
  const bool waits = !contender.seconds.empty();
  result_.simulated |= waits;
  nlohmann::ordered_json of_calibration;  // against the times that the slowest stage was given
  if (waits) {
    double given = 0;
    for (const PhaseSeconds& stage : contender.seconds) {
      given = std::max(given, stage.of_micro_batch(options_.accumulate) / comparison_.speedup);
    }
    of_calibration = rate.median / static_cast<double>(options_.batch) * given;
  }
  result_.rows.push_back({{"stages", contender.partition.size()},
                          {"schedule", std::string(to_string(contender.schedule))},
                          {"split", contender.split},
                          {"layers", partition_text(contender.partition)},
                          {"link", network.link},
                          {"medium", std::string(to_string(network.sharing))},
                          {"entry_seconds", entry_seconds(network.link)},
                          {"examples_per_second", rate.median},
                          {"least", rate.least},
                          {"most", rate.most},
                          {"utilisation", spread_of(utilisations).median},
                          {"of_given_times", of_calibration},
                          {"slowest_stage_seconds", spread_of(slowest).median},
                          {"active_percent", percentages(contender.figures.back().active)},
                          {"speedup", waits ? comparison_.speedup : 1.0},
                          {"simulated", waits}});
}

void ScheduleComparison::add_ratios(const std::vector<Contender>& all, const ComparedNetwork& network) {
  const std::string where = ", " + std::to_string(all.front().partition.size()) + " stages" +
                            (network.link == "local" ? "" : ", " + text_of(network));
  for (const Contender& own : all) {
    if (own.schedule != TrainingSchedule::zerolock) continue;
    for (const Contender& other : all) {
      if (other.schedule == TrainingSchedule::zerolock) continue;
      if (own.split != other.split && own.split == "tuned") continue;
      const std::string splits = own.split == other.split
                                     ? ", " + own.split + " split"
                                     : ", " + own.split + " against " + other.split + " split";
      result_.ratios["zerolock / " + std::string(to_string(other.schedule)) + where + splits] =
          spread_of(quotients(own.rates, other.rates)).median;
    }
  }
}

std::vector<PlotLine> comparison_lines(const BenchResult& result, const std::string& x, const std::string& y,
                                       const std::map<std::string, std::string>& fixed) {
  std::vector<PlotLine> lines;
  for (const auto& row : result.rows) {
    const bool wanted = std::all_of(fixed.begin(), fixed.end(), [&](const auto& column) {
      return row.at(column.first).template get<std::string>() == column.second;
    });
    if (!wanted) continue;
    const std::string name =
        row.at("schedule").get<std::string>() + ", " + row.at("split").get<std::string>() + " split";
    auto line = std::find_if(lines.begin(), lines.end(), [&](const PlotLine& l) { return l.name == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), PlotLine{name, {}});
    line->points.emplace_back(row.at(x).get<double>(), row.at(y).get<double>());
  }
  return lines;
}

void publish_comparison(const ScheduleComparison& comparison, const TrainOptions& options,
                        const std::string& title, const std::vector<PlotPanel>& panels) {
  const BenchResult& result = comparison.result();
  std::fputs((options.json ? result.to_json() : result.to_table()).c_str(), stdout);
  if (!options.out) return;
  std::filesystem::create_directories(*options.out);
  write_text_file(*options.out / (result.bench + ".json"), result.to_json());
  write_text_file(*options.out / "timeline.svg",
                  svg_timeline("A few windows of each schedule", comparison.timelines()));
  if (!panels.empty()) write_text_file(*options.out / (result.bench + ".svg"), svg_plot(title, panels));
}

}  // namespace zerolock
