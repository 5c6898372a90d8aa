#include "train/logging/outputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "convoy/base/units.h"
#include "train/compute/gpu.h"
#include "train/logging/environment.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string count_text(const char* one, int n) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

// Rows of times have a number for each rank and phase: those of large worlds cover more steps.
constexpr std::size_t kRanksPerRow = 64;

std::string loss_text(double loss) {
  return "loss " + (std::isfinite(loss) ? format("%.4f", loss) : "not known");
}

// To the microsecond, which is shorter to write.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

}  // namespace

PhaseSeconds phases_of(const StepReport& r) {
  return {r.data_s, r.forward_s, r.backward_s, r.communication_s, r.update_s};
}

Outputs::Outputs(const Recipe& recipe, const std::string& folder, std::int64_t resumed_at,
                 bool evaluated, bool show_progress, const std::string& unit, bool counts_samples,
                 const Log& log)
    : unit_(unit),
      counts_samples_(counts_samples),
      epochs_(recipe.training.epochs),
      every_(recipe.output.every_steps),
      evaluated_(recipe.evaluation.from == "training" ? "on data.train" : "validation"),
      board_table_(recipe.evaluation.from == "training" ? "evaluation/" : "validation/"),
      more_table_(recipe.strategy + "/"),
      log_(log),
      metrics_(folder + "/metrics.jsonl", resumed_at, evaluated),
      lost_rows_(log, "rows of metrics"),
      lost_events_(log, "events for TensorBoard") {
  if (recipe.output.tensorboard) {
    board_ = std::make_unique<TensorBoardFile>(folder + "/tensorboard", resumed_at);
    board_->add_text(std::max<std::int64_t>(resumed_at, 0), "recipe",
                     "```toml\n" + print_recipe(recipe, false) + "```");
  }
  if (show_progress) {
    progress_ = std::make_unique<Progress>(progress_on_standard_output(),
                                           counts_samples ? unit : "samples");
  }
}

void Outputs::keep(const MetricsRow& row) {
  lost_rows_.write([&] {
    if (!metrics_.add(row)) {
      log_.warning("metrics.jsonl was removed while the run writes it: its rows before step " +
                   std::to_string(row.step) + " are lost, and it is written anew");
    }
  });
}

void Outputs::show(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  if (board_) lost_events_.write([&] { board_->add(step, scalars); });
}

void Outputs::say(const std::string& line) {
  if (progress_) progress_->line(line);
}

void Outputs::begin(const RunFacts& facts, const Recipe& recipe, const comm::World& world,
                    const Moment& now) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  seconds_before_ = facts.seconds_before;
  device_ = facts.device;
  forget_device_peak(device_);
  row_at_ = now.step;
  begun_ = Clock::now();
  std::error_code ignored;
  std::vector<std::string> metrics, titles;
  std::vector<double> higher, percent;
  for (const Metric& metric : facts.metrics) {
    metrics.push_back(metric.name);
    titles.push_back(metric.title);
    higher.push_back(metric.higher_is_better ? 1 : 0);
    percent.push_back(metric.percent ? 1 : 0);
  }
  keep({.kind = "run",
        .step = 0,
        .numbers = {{"ranks", world.size()},
                    {"threads_per_rank", facts.threads},
                    {"cores_per_rank", facts.cores},
                    {"shares", facts.shares},
                    {"partitions", static_cast<double>(recipe.grid.partitions)},
                    {"parameters", static_cast<double>(facts.parameters)},
                    {"training_samples", static_cast<double>(facts.training_samples)},
                    {"validation_samples", static_cast<double>(facts.validation_samples)},
                    {"batch", static_cast<double>(facts.batch)},
                    {"steps", static_cast<double>(now.steps)},
                    {"resumed_at", static_cast<double>(now.step)},
                    {"elapsed_s", seconds_before_}},
        .strings = {{"name", recipe.name},
                    {"model", facts.model},
                    {"strategy", recipe.strategy},
                    {"device", recipe.device},
                    {"precision", recipe.precision},
                    {"unit", unit_},
                    {"evaluated",
                     "data." + (recipe.evaluation.from == "training" ? std::string("train")
                                                                     : recipe.evaluation.from)},
                    {"data", facts.data},
                    {"started", utc_now()},
                    {"command", command_of_run()},
                    {"working_folder", fs::current_path(ignored).string()},
                    {"resumed_from", facts.resumed_from},
                    {"version", facts.version},
                    {"best_metric", facts.best},
                    {"processor", processor_name()}},
        .lists = {{"metric_higher_is_better", higher}, {"metric_percent", percent}},
        .names = {{"hosts", hosts}, {"metrics", metrics}, {"metric_titles", titles}}});
  say(facts.model + ", " + std::to_string(facts.parameters) + " parameters; " +
      std::to_string(facts.training_samples) + " training and " +
      std::to_string(facts.validation_samples) + " validation " +
      (counts_samples_ ? unit_ : "samples") + (facts.data.empty() ? "" : ", " + facts.data));
  say(count_text("rank", world.size()) + " x " + count_text("thread", facts.threads) + ", batch " +
      std::to_string(facts.batch) + ", " + std::to_string(now.steps) +
      (now.steps == 1 ? " step; in " : " steps; in ") + facts.folder);
  if (facts.resumed_from.empty()) return;
  say("resumed after step " + std::to_string(now.step) + " from " + facts.resumed_from);
}

std::string Outputs::epoch_label(const Moment& moment) const {
  std::string label = "epoch " + std::to_string(moment.epoch + 1);
  if (epochs_ > 0) label += "/" + std::to_string(epochs_);
  return label;
}

void Outputs::step(const Moment& m, const StepReport& r, const data::SourceStatistics& source) {
  const double seconds = r.elapsed_s >= 0 ? r.elapsed_s : sum(phases_of(r));
  seconds_ += seconds;
  weight_ += r.weight;
  // Of an update in which nothing counts there is no loss: all of its samples were bad, say, or no
  // replica has told of its mini-batches yet. Others before it have theirs.
  if (r.weight > 0) loss_ = r.loss;
  epoch_.seconds += seconds;
  epoch_.loss += r.loss * r.weight;
  epoch_.weight += r.weight;
  epoch_.samples += r.samples;
  if (progress_) {
    progress_->update(epoch_label(m), static_cast<double>(m.consumed),
                      static_cast<double>(m.samples), loss_text(loss_));
  }
  for (MetricsRow more : r.more.rows) {
    more.numbers.insert(more.numbers.begin(), {"elapsed_s", rounded(elapsed())});
    keep(more);
  }
  if (m.step / every_ == row_at_ / every_ && m.step != m.steps) return;
  row_at_ = m.step;
  const double rate = seconds_ > 0 ? weight_ / seconds_ : 0;
  const double loss = std::exchange(loss_, kNoMean);
  seconds_ = 0;
  weight_ = 0;
  const double epoch = m.epochs();
  const std::string rate_key = unit_ + "_per_s";
  MetricsRow row{.kind = "step",
                 .step = m.step,
                 .numbers = {{"epoch", epoch},
                             {"elapsed_s", rounded(elapsed())},
                             {"loss", loss},
                             {"learning_rate", r.learning_rate},
                             {"samples", static_cast<double>(r.samples)},
                             {rate_key, rate},
                             {"data_s", r.data_s},
                             {"forward_s", r.forward_s},
                             {"backward_s", r.backward_s},
                             {"exposed_communication_s", r.communication_s},
                             {"update_s", r.update_s},
                             {"decode_s", source.decode_s},
                             {"batches_ready", static_cast<double>(source.ready)},
                             {"skipped", static_cast<double>(r.skipped)}},
                 .strings = {}};
  if (r.gradient_norm >= 0) row.numbers.push_back({"gradient_norm", r.gradient_norm});
  if (!counts_samples_) row.numbers.push_back({unit_, r.weight});
  const auto memory = device_memory(device_);
  if (memory) {
    row.numbers.push_back({"device_memory_bytes", static_cast<double>(memory->taken)});
    row.numbers.push_back({"device_memory_peak_bytes", static_cast<double>(memory->peak)});
  }
  row.numbers.insert(row.numbers.end(), r.more.numbers.begin(), r.more.numbers.end());
  row.lists = r.more.lists;
  keep(row);
  if (!board_) return;
  std::vector<std::pair<std::string, double>> scalars{
      {"train/learning_rate", r.learning_rate},
      {"train/epoch", epoch},
      {"speed/" + rate_key, rate},
      {"seconds/data", r.data_s},
      {"seconds/forward", r.forward_s},
      {"seconds/backward", r.backward_s},
      {"seconds/exposed_communication", r.communication_s},
      {"seconds/update", r.update_s}};
  if (memory) scalars.emplace_back("memory/device_peak_bytes", static_cast<double>(memory->peak));
  if (std::isfinite(loss)) scalars.emplace_back("train/loss", loss);
  if (r.gradient_norm >= 0) scalars.emplace_back("train/gradient_norm", r.gradient_norm);
  for (const auto& [name, value] : r.more.numbers) scalars.emplace_back(more_table_ + name, value);
  show(m.step, scalars);
}

void Outputs::noise(const Moment& m, const GradientNoise& noise) {
  keep({.kind = "noise",
        .step = m.step,
        .numbers = {{"epoch", m.epochs()},
                    {"elapsed_s", rounded(elapsed())},
                    {"part", noise.part},
                    {"batch", noise.batch},
                    {"part_square", noise.part_square},
                    {"batch_square", noise.batch_square},
                    {"gradient_square", noise.gradient_square()},
                    {"gradient_variance", noise.variance()}},
        .strings = {}});
  show(m.step, {{"noise/gradient_square", noise.gradient_square()},
                {"noise/gradient_variance", noise.variance()}});
}

void Outputs::evaluation(const Moment& m, const Evaluation& e) {
  MetricsRow row{.kind = "evaluation",
                 .step = m.step,
                 .numbers = {{"epoch", m.epochs()},
                             {"elapsed_s", rounded(elapsed())},
                             {"samples", static_cast<double>(e.samples)}},
                 .strings = {}};
  std::vector<std::pair<std::string, double>> scalars;
  last_evaluation_ = evaluated_ + ": ";
  for (const Evaluation::Figure& figure : e.figures) {
    row.numbers.push_back({figure.metric.name, figure.value});
    scalars.emplace_back(board_table_ + figure.metric.name, figure.value);
    last_evaluation_ += (&figure == &e.figures[0] ? "" : ", ") + text_of(figure);
  }
  row.numbers.push_back({"skipped", static_cast<double>(e.skipped)});
  row.numbers.push_back({"time_s", e.seconds});
  keep(row);
  show(m.step, scalars);
  if (m.epoch_over || m.step == m.steps) return;  // told with the epoch, or at the end
  say("step " + std::to_string(m.step) + "; " + last_evaluation_);
  last_evaluation_.clear();
}

void Outputs::reached_target(const Moment& m, const std::string& metric) {
  keep({.kind = "target",
        .step = m.step,
        .numbers = {{"elapsed_s", rounded(elapsed())}},
        .strings = {{"metric", metric}}});
  say("step " + std::to_string(m.step) + ": " + metric + " is as good as training.target says");
}

void Outputs::epoch(const Moment& m) {
  const double seconds = epoch_.seconds;
  const double loss = epoch_.weight > 0 ? epoch_.loss / epoch_.weight : kNoMean;
  const double rate = seconds > 0 ? epoch_.weight / seconds : 0;
  keep({.kind = "epoch",
        .step = m.step,
        .numbers = {{"epoch", static_cast<double>(m.whole_epochs())},
                    {"elapsed_s", rounded(elapsed())},
                    {"loss", loss},
                    {"samples", static_cast<double>(epoch_.samples)},
                    {"time_s", seconds},
                    {unit_ + "_per_s", rate}},
        .strings = {}});
  Moment ended = m;  // others may have begun the next one
  ended.epoch = m.whole_epochs() - 1;
  ended_ = {
      epoch_label(ended) + ": " + loss_text(loss),
      format(rate < 100 ? "%.1f" : "%.0f", rate) + " " + unit_ + "/s, " + format_seconds(seconds)};
  epoch_ = {};
}

void Outputs::tell_epoch() {
  if (ended_.result.empty()) return;
  say(ended_.result + (last_evaluation_.empty() ? "" : "; " + last_evaluation_) + "; " +
      ended_.rate);
  last_evaluation_.clear();
  ended_ = {};
}

void Outputs::made_up(const Moment& m) {
  if (!last_evaluation_.empty()) say(epoch_label(m) + "; " + last_evaluation_);
  last_evaluation_.clear();
}

void Outputs::ranks(const GatheredTimes& times, const comm::World& world) {
  times_.step = times.step;
  times_.steps += times.steps;
  times_.cost_s = std::max(times_.cost_s, times.cost_s);
  times_.ranks.resize(times.ranks.size());
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < kPhases; ++i) times_.ranks[rank][i] += times.ranks[rank][i];
  }
  const auto ranks = static_cast<std::int64_t>((times.ranks.size() - 1) / kRanksPerRow);
  if (times_.steps > ranks * times.steps) write_rank_times();
  const std::optional<SlowRank> slow = watch_.add(times.steps, times.ranks);
  if (!slow) return;
  const std::string& host = world.host(slow->rank);
  world.log().warning(text_of(*slow, host));
  keep({.kind = "slow_rank",
        .step = times.step,
        .numbers = {{"elapsed_s", rounded(elapsed())},
                    {"rank", slow->rank},
                    {"steps", static_cast<double>(slow->steps)},
                    {"own_s", rounded(slow->own_s)},
                    {"others_s", rounded(slow->others_s)},
                    {"phase_more_s", rounded(slow->phase_more_s)}},
        .strings = {{"host", host}, {"phase", kPhaseNames[slow->phase]}}});
}

void Outputs::write_rank_times() {
  MetricsRow row{.kind = "ranks",
                 .step = times_.step,
                 .numbers = {{"steps", static_cast<double>(times_.steps)},
                             {"elapsed_s", rounded(elapsed())},
                             {"gathered_in_s", rounded(times_.cost_s)}},
                 .strings = {}};
  std::vector<std::pair<std::string, double>> scalars;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    std::vector<double> seconds;
    for (const PhaseSeconds& rank : times_.ranks) seconds.push_back(rounded(rank[phase]));
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    double all = 0;
    for (const double rank : seconds) all += rank;
    const std::string tag = std::string("ranks/") + kPhaseKeys[phase];
    const auto steps = static_cast<double>(times_.steps);
    scalars.emplace_back(tag + "_min", *least / steps);
    scalars.emplace_back(tag + "_mean", all / static_cast<double>(seconds.size()) / steps);
    scalars.emplace_back(tag + "_max", *most / steps);
    row.lists.emplace_back(kPhaseKeys[phase], std::move(seconds));
  }
  keep(row);
  show(times_.step, scalars);
  times_ = {};
}

void Outputs::checkpoint(const Moment& m, const WrittenCheckpoint& written) {
  MetricsRow row{.kind = "checkpoint",
                 .step = written.step,
                 .numbers = {{"elapsed_s", rounded(elapsed())},
                             {"time_s", written.seconds},
                             {"held_s", written.held_s},
                             {"copied_bytes", static_cast<double>(written.copied)},
                             {"finished_at_step", static_cast<double>(m.step)}},
                 .strings = {{"path", written.path}}};
  if (written.score) row.numbers.push_back({"score", *written.score});
  keep(row);
  say("checkpoint of step " + std::to_string(written.step) + ": written in " +
      format_seconds(written.seconds) + ", held training up for " + format_seconds(written.held_s));
}

void Outputs::end(const Moment& m, const std::string& how, const std::string& where, bool of_data) {
  if (times_.steps > 0) write_rank_times();  // too few for a row so far
  std::vector<std::pair<std::string, std::string>> strings{{"how", how}};
  if (!where.empty()) strings.emplace_back("where", where);
  if (of_data) strings.emplace_back("cause", "data");
  keep({.kind = "end",
        .step = m.step,
        .numbers = {{"elapsed_s", rounded(elapsed())}},
        .strings = strings});
  lost_rows_.sum_up();
  lost_events_.sum_up();
}

}  // namespace convoy::train
