#include "convoy/train/evaluate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/train/compute.h"
#include "convoy/train/trainer.h"
#include "train/check_inference.h"
#include "train/compute/batch_stage.h"
#include "train/evaluation_mode.h"
#include "train/outcome.h"
#include "train/rank_work.h"
#include "train/same_everywhere.h"
#include "train/samples/open.h"

namespace convoy::train {
namespace {

constexpr const char* kOfTraining = "train_";

data::TransformOptions transform_of(const DataRecipe& recipe, const CropRecipe& crop) {
  data::TransformOptions t;
  if (crop.crop == "random_resized") t.crop = data::Crop::random_resized;
  if (crop.crop == "random_padded") t.crop = data::Crop::random_padded;
  if (crop.crop == "center") t.crop = data::Crop::center;
  if (crop.crop == "fixed") t.crop = data::Crop::fixed;
  if (crop.crop == "ten") t.crop = data::Crop::ten;
  // A center crop of no size is the image itself.
  if (t.crop == data::Crop::center && recipe.size == 0) t.crop = data::Crop::none;
  t.height = t.width = static_cast<int>(recipe.size);
  t.channels = static_cast<int>(recipe.channels);
  t.min_area = crop.area[0];
  t.max_area = crop.area[1];
  t.min_ratio = crop.ratio[0];
  t.max_ratio = crop.ratio[1];
  t.padding = static_cast<int>(crop.padding);
  t.resize = static_cast<int>(crop.resize > 0 ? crop.resize : recipe.size);
  t.left = static_cast<int>(crop.left);
  t.top = static_cast<int>(crop.top);
  t.flip = crop.flip;
  t.brightness = crop.brightness;
  t.contrast = crop.contrast;
  t.saturation = crop.saturation;
  t.lighting = crop.lighting;
  t.mean.assign(recipe.mean.begin(), recipe.mean.end());
  t.deviation.assign(recipe.deviation.begin(), recipe.deviation.end());
  if (recipe.pixel == "bfloat16") t.pixel = data::Pixel::bf16;
  // One value stands for all channels.
  t.mean.resize(std::max(t.mean.size(), t.deviation.size()), t.mean.front());
  t.deviation.resize(t.mean.size(), t.deviation.front());
  return t;
}

// Whether ranks break off. They have the same number of batches, and tell each other with each; the
// answer is waited for after it, so that all end after the same one, and nobody waits longer for
// the others than a batch takes.
class StopVote {
 public:
  StopVote(const comm::Communicator& communicator, const std::function<bool()>& asked)
      : communicator_(communicator), asked_(asked) {}
  // To be asked before each batch, with the number of those that are left before it, the same on
  // every rank, and with whether this rank has been able to read it.
  bool goes_on(std::size_t batches_left, bool read) {
    finish();
    stopped_ = ranks_[kAsked] > 0 && batches_left > 0;
    if (ranks_[kAsked] > 0 || failed()) return false;
    ranks_ = {asked_ && asked_() ? 1 : 0, read ? 0 : 1};
    sum_ = communicator_.start_allreduce(comm::buffer_of(ranks_), comm::ReduceOp::sum);
    return true;
  }
  // To be called after the last, before anything else is communicated.
  void finish() {
    if (sum_.valid()) sum_.wait();
  }
  // Whether a batch was left out.
  bool stopped() const { return stopped_; }
  // Whether a rank could not read its share of one.
  bool failed() const { return ranks_[kFailed] > 0; }

 private:
  enum { kAsked, kFailed, kSize };

  const comm::Communicator& communicator_;
  const std::function<bool()>& asked_;
  bool stopped_ = false;
  std::array<std::int64_t, kSize> ranks_{};
  comm::Operation sum_;
};

}  // namespace

data::TransformOptions training_transform(const DataRecipe& recipe) {
  return transform_of(recipe, recipe.augment);
}
data::TransformOptions evaluation_transform(const DataRecipe& recipe) {
  return transform_of(recipe, recipe.evaluate);
}

data::TransformOptions evaluation_transform(const DataRecipe& recipe, const data::Shape& trained) {
  data::TransformOptions transform = evaluation_transform(recipe);
  if (transform.channels == 0 && (trained.channels == 1 || trained.channels == 3))
    transform.channels = trained.channels;
  return transform;
}

data::OnBad on_bad(const DataRecipe& recipe) {
  return recipe.on_bad == "skip" ? data::OnBad::skip : data::OnBad::fail;
}

int decoding_threads(const Recipe& recipe) {
  constexpr int kMost = 16;
  if (recipe.data.threads > 0) return static_cast<int>(recipe.data.threads);
  const int cores = at::get_num_threads();
  return std::clamp(recipe.device == "cpu" ? cores / 4 : cores, 1, kMost);
}

data::Shape input_shape(const data::Dataset& dataset, const DataRecipe& recipe) {
  return data::output_shape(dataset, training_transform(recipe), on_bad(recipe));
}

double Evaluation::at(std::string_view metric) const {
  for (const Figure& figure : figures) {
    if (figure.metric.name == metric) return figure.value;
  }
  throw std::logic_error("an evaluation has no figure '" + std::string(metric) + "'");
}

double Evaluation::score(std::string_view metric) const {
  for (const Figure& figure : figures) {
    if (figure.metric.name == metric)
      return figure.metric.higher_is_better ? figure.value : -figure.value;
  }
  return at(metric);
}

Metric metric_of_training(Metric metric) {
  metric.name = kOfTraining + metric.name;
  metric.title += " of training data";
  return metric;
}

void add_training(Evaluation& evaluation, const Evaluation& of_training) {
  evaluation.broken_off = evaluation.broken_off || of_training.broken_off;
  evaluation.seconds += of_training.seconds;
  for (const Evaluation::Figure& figure : of_training.figures)
    evaluation.figures.push_back({metric_of_training(figure.metric), figure.value});
}

std::string text_of(const Evaluation::Figure& figure) {
  char value[64];
  if (figure.metric.percent)
    std::snprintf(value, sizeof value, "%.2f%%", 100 * figure.value);
  else
    std::snprintf(value, sizeof value, "%.4f", figure.value);
  return figure.metric.title + " " + value;
}

std::string evaluation_line(const RunResult& result) {
  std::string line = result.evaluated == "data.train" ? "on data.train: " : "validation: ";
  const Evaluation& evaluation = result.evaluation.value();
  for (const Evaluation::Figure& figure : evaluation.figures) {
    if (figure.metric.name.starts_with(kOfTraining)) break;  // which is of other samples
    line += (&figure == &evaluation.figures[0] ? "" : ", ") + text_of(figure);
  }
  line += " of " + std::to_string(evaluation.samples) + " samples";
  if (result.evaluated_at != result.steps)
    line += ", after step " + std::to_string(result.evaluated_at);
  return line;
}

Evaluation evaluate(const Evaluated& what, const std::shared_ptr<const data::Dataset>& dataset,
                    const EvaluationOptions& how) {
  const auto start = Clock::now();
  const comm::Communicator& all = what.all;
  check_same_data(all, *dataset, "data.validation");
  const auto source = open_evaluation(dataset,
                                      {what.recipe, what.task, what.arrangement,
                                       what.compute.layout(), 1, what.compute.batch_memory()},
                                      how.on_skip);
  Prefetch batches(what.compute.stage(), *source);

  const EvaluationMode mode(what.strategy.module());
  const torch::NoGradGuard no_grad;
  check_inference(what, *source);
  std::vector<double> sums(what.task.sums());
  std::vector<std::int64_t> counts(2);  // samples, skipped
  const data::Batch nothing = empty_share(what, *source);
  std::string outcome(1, kDone);  // of reading a share
  StopVote vote(all, how.should_stop);
  // Every rank takes part in every batch, whatever its share: the network may be on several.
  while (true) {
    vote.finish();  // so that what throws leaves nothing under way
    if (how.between_batches) how.between_batches();
    const std::size_t left = source->batches_left();
    const data::Batch* batch = nullptr;
    if (!vote.failed()) outcome = outcome_of([&] { batch = batches.next(); });
    // Who has none takes part with nothing once more: the others don't know of it yet.
    const bool read = outcome[0] == kDone;
    if (!read) batch = &nothing;
    if (!vote.goes_on(left, read) || batch == nullptr || left == 0) break;
    batches.look_ahead();
    std::vector<double> own(sums.size());
    const bool counts_here = what.strategy.infer(
        what.task, what.compute, *batch, [&](const TensorList& outputs, const TaskBatch& rows) {
          what.task.measure(outputs, rows, own);
        });
    if (!counts_here) continue;
    counts[0] += static_cast<std::int64_t>(batch->size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  vote.finish();
  if (vote.failed()) {
    if (how.when_all_fail) how.when_all_fail();
    throw_first(all, outcome);
  }
  counts[1] = static_cast<std::int64_t>(source->statistics().skipped);
  all.allreduce(comm::buffer_of(counts), comm::ReduceOp::sum);
  all.allreduce(comm::buffer_of(sums), comm::ReduceOp::sum);
  Evaluation result;
  result.samples = static_cast<std::uint64_t>(counts[0]);
  result.skipped = static_cast<std::uint64_t>(counts[1]);
  result.broken_off = vote.stopped();
  const std::vector<double> values = what.task.figures(sums);
  const std::vector<Metric> metrics = what.task.metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i)
    result.figures.push_back({metrics[i], values.at(i)});
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace convoy::train
