// Where and how a recipe computes: device, type and layout of images; autocast.
#pragma once

#include <torch/torch.h>

#include <string>

#include "convoy/data/sample_source.h"
#include "convoy/model/network.h"
#include "convoy/train/autocast.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

class Compute {
 public:
  // Throws UsageError when this LibTorch lacks the device.
  explicit Compute(const Recipe& recipe);

  const torch::Device& device() const { return device_; }
  data::Layout layout() const { return layout_; }

  // Moves the network to the device, type and layout; tensors keep their identity on the CPU.
  void place(model::Network& network) const;
  // Throws UsageError naming the model unless it takes images of this shape (it is asked with a
  // blank one).
  void check_takes(model::Network& network, const data::Shape& shape,
                   const std::string& name) const;
  // How few images of this shape the network can be trained on: 2 where it refuses one alone (batch
  // normalization of a single value), else 1. Changes nothing of it.
  std::size_t least_samples(model::Network& network, const data::Shape& shape) const;
  // A batch as tensors, [size * views, ...]: without a copy on the CPU where batch and network are
  // in float32, so valid as long as the batch.
  torch::Tensor images(const data::Batch& batch) const;
  torch::Tensor labels(const data::Batch& batch) const;
  // One blank image for a rank that has none.
  torch::Tensor blank(const data::Shape& shape) const;

  // The scores, in float32 or better.
  torch::Tensor scores(const torch::Tensor& logits) const;

  // For the forward pass: hold it that long.
  Autocast autocast() const { return Autocast(autocast_, device_.type()); }

 private:
  torch::Device device_;
  at::ScalarType type_;
  bool autocast_;
  data::Layout layout_;
};

// Scores [n * views, classes] of the views of n samples as scores of the samples, [n, classes]:
// those whose probabilities are the means of the views' (AlexNet's ten crops).
torch::Tensor mean_of_views(const LossRecipe& recipe, const torch::Tensor& scores, int views);

// The mean loss of a batch, as a scalar tensor. Scores are [n, classes], labels [n].
torch::Tensor loss_of(const LossRecipe& recipe, const torch::Tensor& scores,
                      const torch::Tensor& labels);

}  // namespace convoy::train
