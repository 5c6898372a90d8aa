// This says where and how a recipe computes: device, type and layout of images; autocast.
//
// Immutable; any thread.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "convoy/data/sample_source.h"
#include "convoy/model/network.h"
#include "convoy/train/autocast.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

class BatchStage;

class Compute {
 public:
  // Of ranks of a host that take any GPU, each takes the one that its number in the host says. What
  // the recipe says of the arithmetic of GPUs is so for the whole process from then on. Throws
  // UsageError where the device isn't there, or not for this LibTorch. A process that takes a GPU
  // has to do so before it asks LibTorch for anything else: one that has computed on the CPU may
  // not get any.
  explicit Compute(const Recipe& recipe, int local_rank = 0);

  const torch::Device& device() const { return device_; }
  // Gives the same for another device of its kind. It has no stage(): that brings whole batches to
  // this one's device, and what devices share are parts of batches.
  Compute on(const torch::Device& device) const {
    Compute other = *this;
    other.device_ = device;
    other.stage_ = nullptr;
    return other;
  }
  data::Layout layout() const { return layout_; }

  // Moves the network to the device, type and layout; tensors keep their identity on the CPU.
  void place(torch::nn::Module& network) const;
  // Gives a batch as tensors, [size * views, ...]: without a copy on the CPU where batch and
  // network are in float32, so valid as long as the batch. On another device what was brought there
  // ahead of need is used.
  torch::Tensor images(const data::Batch& batch) const;
  // The same of some of its samples; only these are converted.
  torch::Tensor images(const data::Batch& batch, data::Range rows) const;
  torch::Tensor labels(std::span<const std::int64_t> labels) const;
  // Gives one blank image for a rank that has none.
  torch::Tensor blank(const data::Shape& shape) const;

  // Is for data::LoaderOptions::memory: memory from which the device copies by itself, or where
  // there is none ordinary memory, which is said once. Empty for the CPU, and the loader's own
  // memory does.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> batch_memory() const;
  // Brings batches to the device ahead of need (train/compute/batch_stage.h); null for the CPU, and
  // for what on() gives.
  const std::shared_ptr<BatchStage>& stage() const { return stage_; }

  // Is for the forward pass: hold it that long.
  Autocast autocast() const { return Autocast(autocast_, device_.type()); }

 private:
  torch::Device device_;
  at::ScalarType type_;
  bool autocast_;
  data::Layout layout_;
  std::shared_ptr<BatchStage> stage_;
};

}  // namespace convoy::train
