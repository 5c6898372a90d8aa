// Gradients of fully connected layers, computed in the memory in which they are reduced, or later.
#pragma once

#include <torch/torch.h>

#include <functional>

namespace convoy::parallel {

// While one is alive, the backward pass of torch::linear asks it where to put the gradient of
// `weight`, a leaf with two dimensions, so that nobody has to copy it there. Models call
// torch::linear as ever (model::Linear does, torch::nn::Linear does not), since aten::linear itself
// is asked. The values are those of the usual backward.
//
// Neither this nor a DeferredGradient is asked in passes whose gradients don't simply go to .grad:
// torch::autograd::grad, create_graph, forward mode, autocast (its weights are casts).
class DirectGradient {
 public:
  // Returns memory of the weight's shape and type, contiguous, or an undefined tensor: not now.
  // What it returned is overwritten with a gradient, and then reaches .grad, if that was undefined
  // and nothing else adds to this gradient; otherwise .grad has other memory. Called in the thread
  // that runs backward.
  using Take = std::function<at::Tensor()>;

  // A weight that has two of them, or one and a DeferredGradient, asks neither: both would work on
  // its .grad.
  DirectGradient(const at::Tensor& weight, Take take);
  ~DirectGradient();
  DirectGradient(const DirectGradient&) = delete;
  DirectGradient& operator=(const DirectGradient&) = delete;

 private:
  const void* weight_;
};

// This is for who wants to compute the gradient of `weight` later, when there is time for it, or
// for many passes at once. .grad is the caller's matter then.
class DeferredGradient {
 public:
  // What the gradient is the product of: output_gradientᵀ input, [rows, outputs] and [rows,
  // inputs]. Nobody changes them later. Called in the thread that runs backward.
  using Keep = std::function<void(const at::Tensor& input, const at::Tensor& output_gradient)>;

  DeferredGradient(const at::Tensor& weight, Keep keep);
  ~DeferredGradient();
  DeferredGradient(const DeferredGradient&) = delete;
  DeferredGradient& operator=(const DeferredGradient&) = delete;

 private:
  const void* weight_;
};

}  // namespace convoy::parallel
