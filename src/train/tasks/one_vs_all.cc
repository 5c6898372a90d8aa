#include "train/tasks/one_vs_all.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

// Scores in bins of an eighth of a logit, from -16 to 16: probabilities near 0 and 1, where those
// of a trained network are, are told apart as well as those in the middle.
constexpr std::int64_t kBins = 256;
constexpr double kBinsPerLogit = 8;

// How many samples without and with the label are in each bin, [classes * kBins * 2].
torch::Tensor histograms(const torch::Tensor& scores, const torch::Tensor& targets) {
  const std::int64_t classes = scores.size(1);
  const torch::Tensor bins = (scores.to(torch::kDouble) * kBinsPerLogit + kBins / 2)
                                 .floor()
                                 .clamp(0, kBins - 1)
                                 .to(torch::kLong);
  const torch::Tensor first =
      torch::arange(classes, torch::TensorOptions().dtype(torch::kLong).device(scores.device())) *
      kBins;
  const torch::Tensor cells = (bins + first) * 2 + targets.to(torch::kLong);
  return torch::bincount(cells.flatten(), {}, classes * kBins * 2);
}

// The area below the curve of precision over recall, for thresholds between bins; 0 < with labels.
double average_precision(std::span<const double> bins, double labels) {
  double with = 0, all = 0, area = 0;
  for (std::size_t bin = bins.size() / 2; bin-- > 0;) {
    with += bins[2 * bin + 1];
    all += bins[2 * bin] + bins[2 * bin + 1];
    if (bins[2 * bin + 1] > 0) area += bins[2 * bin + 1] / labels * (with / all);
  }
  return area;
}

// Over the classes that some sample has.
double mean_average_precision(std::span<const double> histograms) {
  constexpr std::size_t kOfClass = kBins * 2;
  double sum = 0, classes = 0;
  for (std::size_t at = 0; at + kOfClass <= histograms.size(); at += kOfClass) {
    const auto bins = histograms.subspan(at, kOfClass);
    double labels = 0;
    for (std::size_t i = 1; i < kOfClass; i += 2) labels += bins[i];
    if (labels == 0) continue;
    sum += average_precision(bins, labels);
    ++classes;
  }
  return sum / std::max(classes, 1.0);
}

}  // namespace

OneVsAll::OneVsAll(const Recipe& recipe)
    : Classification(recipe), threshold_(recipe.task.options.number("threshold")) {}

torch::Tensor OneVsAll::labels_of(const data::Batch& batch, data::Range rows,
                                  const Compute& compute) const {
  const std::int64_t classes = outputs();
  const torch::Tensor targets = torch::zeros({static_cast<std::int64_t>(rows.size()), classes});
  float* row = targets.data_ptr<float>();
  for (std::size_t i = rows.begin; i < rows.end; ++i, row += classes) {
    const bool lists = !batch.label_lists.empty();
    const std::span<const std::int64_t> labels =
        lists ? std::span<const std::int64_t>(batch.label_lists[i]) : batch.labels.subspan(i, 1);
    for (const std::int64_t one : labels) {
      const std::int64_t label = class_of()(one, batch.samples[i]);
      if (label < 0 || label >= classes) {
        throw UsageError("sample " + std::to_string(batch.samples[i]) + " has the label " +
                         std::to_string(label) + "; there are " + std::to_string(classes) +
                         " classes");
      }
      row[label] = 1;
    }
  }
  return targets.to(compute.device());
}

torch::Tensor OneVsAll::blank_labels(std::int64_t samples, const Compute& compute) const {
  return torch::zeros({samples, outputs()}, torch::TensorOptions().device(compute.device()));
}

torch::Tensor OneVsAll::wanted_of(const torch::Tensor& targets, at::ScalarType type) const {
  const torch::Tensor wanted = targets.to(type);
  return smoothing() > 0 ? wanted * (1 - smoothing()) + smoothing() / 2 : wanted;
}

// Classes have nothing to do with each other.
PartLoss OneVsAll::divided_loss(const torch::Tensor& outputs, const torch::Tensor& targets,
                                const torch::Tensor& factors, const OutputPart&) const {
  const torch::NoGradGuard no_grad;
  const torch::Tensor scores = wide(outputs.detach());
  const torch::Tensor wanted = wanted_of(targets, scores.scalar_type());
  const torch::Tensor weights = factors.to(scores.options()).unsqueeze(1);
  PartLoss loss;
  loss.gradient = ((scores.sigmoid() - wanted) * weights).to(outputs.scalar_type());
  loss.value =
      (torch::binary_cross_entropy_with_logits(scores, wanted, {}, {}, at::Reduction::None) *
       weights)
          .sum()
          .item<double>();
  return loss;
}

torch::Tensor OneVsAll::loss_of(const torch::Tensor& scores, const torch::Tensor& targets) const {
  namespace F = torch::nn::functional;
  return F::binary_cross_entropy_with_logits(
             scores, wanted_of(targets, scores.scalar_type()),
             F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum)) /
         scores.size(0);
}

torch::Tensor OneVsAll::probabilities(const torch::Tensor& scores) const {
  return scores.sigmoid();
}

torch::Tensor OneVsAll::mean_of_views(const torch::Tensor& scores) const {
  return scores.sigmoid().mean(1).logit(1e-7);
}

std::vector<Metric> OneVsAll::metrics() const {
  return {{"map", "mAP", true, true},
          {"f1", "F1", true, true},
          {"top1", "top-1", true, true},
          {"top5", "top-5", true, true},
          {"loss", "loss", false, false}};
}

std::size_t OneVsAll::sums() const {
  return kHistograms + static_cast<std::size_t>(outputs() * kBins * 2);
}

void OneVsAll::measure(const TensorList& outputs, const TaskBatch& batch,
                       std::span<double> sums) const {
  const torch::Tensor& targets = batch.tensors.at("labels");
  const std::int64_t n = targets.size(0);
  if (n == 0) return;
  const torch::Tensor scores = scores_of(outputs, n);
  const torch::Tensor labels = targets > 0;
  const torch::Tensor above = probabilities(scores) > threshold_;
  const torch::Tensor best = std::get<1>(scores.topk(std::min<std::int64_t>(5, scores.size(1)), 1));
  const torch::Tensor found = labels.gather(1, best);
  const auto add = [&sums](Sum sum, const torch::Tensor& which) {
    sums[sum] += which.sum().item<double>();
  };
  // A network that gives no numbers is not better than any other: nor are its figures.
  if (scores.isnan().any().item<bool>()) {
    std::fill(sums.begin(), sums.end(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  sums[kSamples] += static_cast<double>(n);
  add(kLabeled, labels.any(1));
  add(kTop1, found.select(1, 0));
  add(kTop5, found.any(1));
  sums[kLoss] += loss_of(scores, targets).item<double>() * static_cast<double>(n);
  add(kHits, labels & above);
  add(kPredicted, above);
  add(kLabels, labels);
  const torch::Tensor counts = histograms(scores, targets).to(torch::kCPU);
  const auto* const count = counts.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < counts.numel(); ++i)
    sums[kHistograms + static_cast<std::size_t>(i)] += static_cast<double>(count[i]);
}

std::vector<double> OneVsAll::figures(std::span<const double> sums) const {
  if (!(sums[kSamples] > 0))  // none, or the network gives no numbers
    return std::vector<double>(metrics().size(), std::numeric_limits<double>::quiet_NaN());
  const double labeled = std::max(sums[kLabeled], 1.0);
  return {mean_average_precision(sums.subspan(kHistograms)),
          2 * sums[kHits] / std::max(sums[kPredicted] + sums[kLabels], 1.0), sums[kTop1] / labeled,
          sums[kTop5] / labeled, sums[kLoss] / sums[kSamples]};
}

void OneVsAll::answer(const Scored& sample, int, Answer& to) const {
  // In the precision in which measure() counts.
  const torch::Tensor likely = probabilities(sample.scores.unsqueeze(0));
  const auto above = (likely > threshold_).sum().item<std::int64_t>();
  describe(most_likely(sample, std::max<std::int64_t>(above, 1)), to);
  if (above > 0) return;
  to.lines.back() += " (not above the threshold)";
  to.json.insert(to.json.rfind('}'), ", \"above_threshold\": false");
}

std::unique_ptr<Task> one_vs_all(const Recipe& recipe) {
  return std::make_unique<OneVsAll>(recipe);
}

}  // namespace convoy::train
