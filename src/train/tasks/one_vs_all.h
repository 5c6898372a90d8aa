// Images with any number of labels each.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/tasks/classification.h"

namespace convoy::train {

// An independent logistic output per class (Krizhevsky 2014, section 5; Dean et al. 2012).
class OneVsAll final : public Classification {
 public:
  explicit OneVsAll(const Recipe& recipe);
  bool takes_label_lists() const override { return true; }

  std::vector<Metric> metrics() const override;
  std::string usual_best() const override { return "map"; }
  torch::Tensor divided_targets(const TaskBatch& batch) const override {
    return batch.tensors.at("labels");
  }
  PartLoss divided_loss(const torch::Tensor& outputs, const torch::Tensor& targets,
                        const torch::Tensor& factors, const OutputPart& part) const override;
  std::size_t sums() const override;
  void measure(const TensorList& outputs, const TaskBatch& batch,
               std::span<double> sums) const override;
  std::vector<double> figures(std::span<const double> sums) const override;

 private:
  enum Sum : std::size_t {
    kSamples,
    kLabeled,    // samples with a label
    kTop1,       // of them, those whose best class is a label
    kTop5,       // one of the best five
    kLoss,       // over samples
    kHits,       // classes above the threshold that are labels
    kPredicted,  // classes above the threshold
    kLabels,
    kHistograms  // from here on, for each class and bin: samples without the label, and with it
  };

  // [n, classes]: 1 for each label of an image, else 0.
  torch::Tensor labels_of(const data::Batch& batch, data::Range rows,
                          const Compute& compute) const override;
  torch::Tensor blank_labels(std::int64_t samples, const Compute& compute) const override;
  torch::Tensor wanted_of(const torch::Tensor& targets, at::ScalarType type) const;
  // Summed over classes, averaged over samples.
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& targets) const override;
  torch::Tensor probabilities(const torch::Tensor& scores) const override;
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override;
  // Answers with all classes above the threshold; where there is none, with the most likely one.
  void answer(const Scored& sample, int most, Answer& to) const override;

  double threshold_;
};

std::unique_ptr<Task> one_vs_all(const Recipe& recipe);

}  // namespace convoy::train
