#include "convoy/train/evaluate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "train/compute/compute.h"
#include "train/same_everywhere.h"

namespace convoy::train {
namespace {

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

class EvaluationMode {
 public:
  explicit EvaluationMode(model::Network& network)
      : network_(network), training_(network.is_training()) {
    network_.eval();
  }
  ~EvaluationMode() { network_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  model::Network& network_;
  bool training_;
};

// Whether ranks break off. They have the same number of batches, and tell each other before each;
// the answer is waited for after it, so that all end after the same one, and nobody waits longer
// for the others than a batch takes.
class StopVote {
 public:
  StopVote(const comm::Communicator& communicator, const std::function<bool()>& asked)
      : communicator_(communicator), asked_(asked) {}
  // To be asked before each batch, with the number of those that are left. The same on every rank.
  bool goes_on(std::size_t batches_left) {
    finish();
    stopped_ = ranks_[0] > 0 && batches_left > 0;
    if (ranks_[0] > 0) return false;
    ranks_[0] = asked_ && asked_() ? 1 : 0;
    sum_ = communicator_.start_allreduce(comm::buffer_of(ranks_), comm::ReduceOp::sum);
    return true;
  }
  // To be called after the last, before anything else is communicated.
  void finish() {
    if (sum_.valid()) sum_.wait();
  }
  // Whether a batch was left out.
  bool stopped() const { return stopped_; }

 private:
  const comm::Communicator& communicator_;
  const std::function<bool()>& asked_;
  bool stopped_ = false;
  std::array<std::int64_t, 1> ranks_{};
  comm::Operation sum_;
};

}  // namespace

data::TransformOptions training_transform(const DataRecipe& recipe) {
  return transform_of(recipe, recipe.augment);
}
data::TransformOptions evaluation_transform(const DataRecipe& recipe) {
  return transform_of(recipe, recipe.evaluate);
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

Evaluation evaluate(const comm::Communicator& communicator, model::Network& network,
                    const std::shared_ptr<const data::Dataset>& dataset, const Recipe& recipe,
                    const EvaluationOptions& how) {
  const auto start = Clock::now();
  check_same_data(communicator, *dataset, "data.validation");
  const Compute compute(recipe);
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(recipe.evaluation.batch > 0 ? recipe.evaluation.batch
                                                                       : recipe.training.batch);
  options.rank = communicator.rank();
  options.world = communicator.size();
  options.shuffle = false;
  options.layout = compute.layout();
  options.threads = decoding_threads(recipe);
  options.on_bad = on_bad(recipe.data);
  options.on_skip = how.on_skip;
  data::Loader loader(dataset, evaluation_transform(recipe.data), options);

  const EvaluationMode mode(network);
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> counts(4);
  std::vector<double> loss(1);
  StopVote vote(communicator, how.should_stop);
  while (const data::Batch* batch = vote.goes_on(loader.batches_left()) ? loader.next() : nullptr) {
    if (batch->size() == 0) continue;
    const torch::Tensor labels = compute.labels(*batch);
    torch::Tensor scores;
    {
      const Autocast autocast = compute.autocast();
      scores = compute.scores(network.forward(compute.images(*batch)));
    }
    scores = mean_of_views(recipe.loss, scores, batch->views);
    const auto n = static_cast<double>(batch->size());
    loss[0] += loss_of(recipe.loss, scores, labels).item<double>() * n;
    const std::int64_t k = std::min<std::int64_t>(5, scores.size(1));
    const torch::Tensor hits = std::get<1>(scores.topk(k, 1)).eq(labels.unsqueeze(1));
    counts[0] += static_cast<std::int64_t>(batch->size());
    counts[1] += hits.narrow(1, 0, 1).sum().item<std::int64_t>();
    counts[2] += hits.sum().item<std::int64_t>();
  }
  vote.finish();
  counts[3] = static_cast<std::int64_t>(loader.statistics().skipped);
  communicator.allreduce(comm::buffer_of(counts), comm::ReduceOp::sum);
  communicator.allreduce(comm::buffer_of(loss), comm::ReduceOp::sum);
  Evaluation result;
  result.samples = static_cast<std::uint64_t>(counts[0]);
  result.top1 = static_cast<std::uint64_t>(counts[1]);
  result.top5 = static_cast<std::uint64_t>(counts[2]);
  result.skipped = static_cast<std::uint64_t>(counts[3]);
  result.broken_off = vote.stopped();
  result.loss = counts[0] > 0 ? loss[0] / static_cast<double>(counts[0]) : 0;
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace convoy::train
