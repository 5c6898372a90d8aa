// A task with one loss that has a value and no gradient.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "convoy/train/registry.h"
#include "train/tasks/classification.h"

namespace convoy::train::testing_data {

// Cross entropy; in the loss number `at` of training, counted by each run and rank, with a root
// whose value is 0 and whose gradient is infinite.
class SteepTask final : public Classification {
 public:
  explicit SteepTask(const Recipe& recipe)
      : Classification(recipe), at_(recipe.task.options.integer("at")) {}

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    torch::Tensor loss = torch::nn::functional::cross_entropy(scores, labels);
    if (!torch::GradMode::is_enabled() || ++losses_ != at_) return loss;
    return loss + (scores - scores.detach()).sqrt().sum();
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override {
    return scores.softmax(1);
  }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }

  std::int64_t at_;
  mutable std::int64_t losses_ = 0;
};

inline void add_steep_task(Registry& registry) {
  registry.add_task("steep", [](const Recipe& r) { return std::make_unique<SteepTask>(r); },
                    {{"label_smoothing", 0.0, ""}, {"at", std::int64_t{0}, "0: none"}});
}

}  // namespace convoy::train::testing_data
