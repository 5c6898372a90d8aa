#include "train/logging/outputs.h"

#include <cstdio>

#include "convoy/base/units.h"

namespace convoy::train {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string count_text(const char* one, int n) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

double seconds_of(const StepReport& r) {
  return r.data_s + r.forward_s + r.backward_s + r.communication_s + r.update_s;
}

}  // namespace

Outputs::Outputs(const Recipe& recipe, const std::string& folder, std::int64_t resumed_at,
                 bool evaluated, bool show_progress, const std::string& unit, bool counts_samples)
    : unit_(unit),
      counts_samples_(counts_samples),
      epochs_(recipe.training.epochs),
      every_(recipe.output.every_steps),
      evaluated_(recipe.evaluation.from == "training" ? "on data.train" : "validation"),
      board_table_(recipe.evaluation.from == "training" ? "evaluation/" : "validation/"),
      metrics_(folder + "/metrics.jsonl", resumed_at, evaluated) {
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

void Outputs::say(const std::string& line) {
  if (progress_) progress_->line(line);
}

void Outputs::begin(const RunFacts& facts, const Moment& now) {
  metrics_.add({.kind = "run",
                .step = 0,
                .numbers = {{"ranks", facts.ranks},
                            {"threads_per_rank", facts.threads},
                            {"parameters", static_cast<double>(facts.parameters)},
                            {"training_samples", static_cast<double>(facts.training_samples)},
                            {"validation_samples", static_cast<double>(facts.validation_samples)},
                            {"batch", static_cast<double>(facts.batch)},
                            {"steps", static_cast<double>(now.steps)},
                            {"resumed_at", static_cast<double>(now.step)}},
                .strings = {}});
  say(facts.model + ", " + std::to_string(facts.parameters) + " parameters; " +
      std::to_string(facts.training_samples) + " training and " +
      std::to_string(facts.validation_samples) + " validation " +
      (counts_samples_ ? unit_ : "samples") + (facts.data.empty() ? "" : ", " + facts.data));
  say(count_text("rank", facts.ranks) + " x " + count_text("thread", facts.threads) + ", batch " +
      std::to_string(facts.batch) + ", " + std::to_string(now.steps) + " steps; in " +
      facts.folder);
  if (facts.resumed_from.empty()) return;
  say("resumed after step " + std::to_string(now.step) + " from " + facts.resumed_from);
}

std::string Outputs::epoch_label(const Moment& moment) const {
  std::string label = "epoch " + std::to_string(moment.epoch + 1);
  if (epochs_ > 0) label += "/" + std::to_string(epochs_);
  return label;
}

void Outputs::step(const Moment& m, const StepReport& r, const data::SourceStatistics& source) {
  seconds_ += seconds_of(r);
  weight_ += r.weight;
  if (progress_) {
    progress_->update(epoch_label(m), static_cast<double>(m.consumed),
                      static_cast<double>(m.samples), "loss " + format("%.4f", r.loss));
  }
  if (m.step % every_ != 0 && m.step != m.steps) return;
  const double rate = seconds_ > 0 ? weight_ / seconds_ : 0;
  seconds_ = 0;
  weight_ = 0;
  const double epoch = m.epochs();
  const std::string rate_key = unit_ + "_per_s";
  MetricsRow row{.kind = "step",
                 .step = m.step,
                 .numbers = {{"epoch", epoch},
                             {"loss", r.loss},
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
  if (!counts_samples_) row.numbers.push_back({unit_, r.weight});
  metrics_.add(row);
  if (!board_) return;
  board_->add(m.step, {{"train/loss", r.loss},
                       {"train/learning_rate", r.learning_rate},
                       {"train/epoch", epoch},
                       {"speed/" + rate_key, rate},
                       {"seconds/data", r.data_s},
                       {"seconds/forward", r.forward_s},
                       {"seconds/backward", r.backward_s},
                       {"seconds/exposed_communication", r.communication_s},
                       {"seconds/update", r.update_s}});
}

void Outputs::evaluation(const Moment& m, const Evaluation& e) {
  MetricsRow row{.kind = "evaluation",
                 .step = m.step,
                 .numbers = {{"epoch", static_cast<double>(m.epoch + 1)},
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
  metrics_.add(row);
  if (board_) board_->add(m.step, scalars);
  if (m.epoch_over) return;  // the line of the epoch has it
  say("step " + std::to_string(m.step) + ", " + last_evaluation_);
  last_evaluation_.clear();
}

void Outputs::reached_target(const Moment& m, const std::string& metric) {
  metrics_.add({.kind = "target", .step = m.step, .numbers = {}, .strings = {{"metric", metric}}});
  say("step " + std::to_string(m.step) + ": " + metric + " is as good as training.target says");
}

void Outputs::epoch(const Moment& m, double loss, double seconds, std::uint64_t samples,
                    double weight) {
  const double rate = seconds > 0 ? weight / seconds : 0;
  metrics_.add({.kind = "epoch",
                .step = m.step,
                .numbers = {{"epoch", static_cast<double>(m.epoch + 1)},
                            {"loss", loss},
                            {"samples", static_cast<double>(samples)},
                            {"time_s", seconds},
                            {unit_ + "_per_s", rate}},
                .strings = {}});
  say(epoch_label(m) + ": loss " + format("%.4f", loss) +
      (last_evaluation_.empty() ? "" : "; " + last_evaluation_) + "; " +
      format(rate < 100 ? "%.1f" : "%.0f", rate) + " " + unit_ + "/s, " + format_seconds(seconds));
  last_evaluation_.clear();
}

void Outputs::made_up(const Moment& m) {
  if (!last_evaluation_.empty()) say(epoch_label(m) + "; " + last_evaluation_);
  last_evaluation_.clear();
}

void Outputs::checkpoint(const Moment& m, const WrittenCheckpoint& written) {
  MetricsRow row{.kind = "checkpoint",
                 .step = written.step,
                 .numbers = {{"time_s", written.seconds},
                             {"held_s", written.held_s},
                             {"copied_bytes", static_cast<double>(written.copied)},
                             {"finished_at_step", static_cast<double>(m.step)}},
                 .strings = {{"path", written.path}}};
  if (written.score) row.numbers.push_back({"score", *written.score});
  metrics_.add(row);
  say("checkpoint of step " + std::to_string(written.step) + ": written in " +
      format_seconds(written.seconds) + ", held training up for " + format_seconds(written.held_s));
}

}  // namespace convoy::train
