// This says where and how a recipe computes: device, type and layout of images; autocast.
//
// Immutable; any thread.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>

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
  // Gives the same for another device of its kind.
  Compute on(const torch::Device& device) const {
    Compute other = *this;
    other.device_ = device;
    return other;
  }
  data::Layout layout() const { return layout_; }

  // Moves the network to the device, type and layout; tensors keep their identity on the CPU.
  void place(torch::nn::Module& network) const;
  // Gives a batch as tensors, [size * views, ...]: without a copy on the CPU where batch and
  // network are in float32, so valid as long as the batch.
  torch::Tensor images(const data::Batch& batch) const;
  torch::Tensor labels(std::span<const std::int64_t> labels) const;
  // Gives one blank image for a rank that has none.
  torch::Tensor blank(const data::Shape& shape) const;

  // Is for the forward pass: hold it that long.
  Autocast autocast() const { return Autocast(autocast_, device_.type()); }

 private:
  torch::Device device_;
  at::ScalarType type_;
  bool autocast_;
  data::Layout layout_;
};

}  // namespace convoy::train
