// Images with labels.
#pragma once

#include <string>
#include <vector>

#include "convoy/train/task.h"
#include "train/tasks/class_map.h"
#include "train/tasks/images.h"

namespace convoy::train {

// One label per image, of classes with names. What differs between its kinds is how scores become
// probabilities and a loss, and what becomes of labels.
class Classification : public Task {
 public:
  explicit Classification(const Recipe& recipe);

  std::string unit() const override { return "images"; }
  void look(const data::Dataset& training, const data::Dataset* validation) override;
  void restore(const TaskFacts& facts) override;
  const TaskFacts& facts() const override { return facts_; }
  void check(const data::Dataset& data, const std::string& what) const override;
  // The network says which images it takes.
  bool may_differ(const std::string& fact) const override { return fact.starts_with("image."); }
  std::string summary() const override;
  std::int64_t outputs() const override;

  TaskBatch tensors(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override;
  TaskBatch targets(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override;
  TaskBatch blank(std::int64_t samples, const Compute& compute) const override;
  TensorList inputs(const TaskBatch& batch) const override { return {batch.tensors.at("images")}; }

  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override;
  std::vector<Metric> metrics() const override;
  std::string usual_best() const override { return "top1"; }
  std::size_t sums() const override { return kSums; }
  void measure(const TensorList& outputs, const TaskBatch& batch,
               std::span<double> sums) const override;
  std::vector<double> figures(std::span<const double> sums) const override;

  std::vector<Answer> predict(const std::vector<std::string>& files, int most,
                              const Compute& compute, const Forward& forward) const override;
  std::vector<Answer> answers(const TensorList& outputs, const TaskBatch& batch,
                              int most) const override;
  // With a map, also the classes of the labels.
  std::string labels(const data::Dataset& data, std::size_t sample) const override;

 protected:
  // The tensor "labels": whatever loss_of() takes, [n, ...], on the device.
  virtual torch::Tensor labels_of(const data::Batch& batch, data::Range rows,
                                  const Compute& compute) const;
  virtual torch::Tensor blank_labels(std::int64_t samples, const Compute& compute) const;
  // Scores [n, classes] in float32 or better.
  virtual torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const = 0;
  virtual torch::Tensor probabilities(const torch::Tensor& scores) const = 0;
  // Scores [n, views, classes] of the views of n samples as scores of the samples, [n, classes]:
  // those whose probabilities are the means of the views' (AlexNet's ten crops).
  virtual torch::Tensor mean_of_views(const torch::Tensor& scores) const = 0;

  // What is said of a sample whose classes have these scores, [classes], and probabilities, the
  // same in float64.
  struct Scored {
    torch::Tensor scores, probabilities;
  };
  virtual void answer(const Scored& sample, int most, Answer& to) const;

  // Gives the scores in float32 or better.
  static torch::Tensor wide(const torch::Tensor& scores) {
    return scores.scalar_type() == torch::kDouble ? scores : scores.to(torch::kFloat);
  }
  double smoothing() const { return smoothing_; }
  const ClassMap& class_of() const { return class_of_; }
  // [samples, classes], whatever the views.
  torch::Tensor scores_of(const TensorList& outputs, std::int64_t samples) const;
  // By scores: probabilities may be 0 or 1 in all their digits, and then say nothing of the order.
  std::vector<ClassProbability> most_likely(const Scored& sample, std::int64_t most) const;

 private:
  enum Sum : std::size_t { kSamples, kTop1, kTop5, kLoss, kSums };

  std::string name_of(std::int64_t index) const;
  void answer_if_known(const Scored& sample, int most, Answer& to) const;
  // Calls `use` with each row of scores, [samples, classes].
  void each(const torch::Tensor& scores,
            const std::function<void(std::size_t row, const Scored& sample)>& use) const;
  data::Shape image() const;

  const Recipe recipe_;
  double smoothing_;
  ClassMap class_of_;  // of a label of the data
  TaskFacts facts_;
};

// Softmax over the classes, and cross entropy.
std::unique_ptr<Task> softmax_classification(const Recipe& recipe);

}  // namespace convoy::train
