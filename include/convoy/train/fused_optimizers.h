// LibTorch's optimizers with the whole step in one pass over memory.
#pragma once

#include <torch/torch.h>

namespace convoy::train {

// Drop-in replacements: the switch is one word,
//
//   torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
//   convoy::train::FusedSgd optimizer(model->parameters(),
//   torch::optim::SGDOptions(0.1).momentum(0.9));
//
// Each is its LibTorch optimizer, with the same constructors, options, parameter groups, state and
// archives (what one saves the other loads); only step() is another. LibTorch's step goes over a
// parameter's memory once for each operation of the rule; this one reads weight, gradient and state
// once and writes weight and state once, for all parameters in one parallel loop over
// at::get_num_threads() threads. The arithmetic is convoy::optim's, equal to LibTorch's up to
// rounding, and the bits don't depend on the number of threads.
//
// Parameters keep their layout (channels-last, say); state takes the layout of its parameter, and a
// gradient or a loaded state of another layout is copied into it. When a parameter or gradient that
// takes part in the step is not a dense float or double tensor on the CPU (half precision, a GPU,
// sparse gradients, a strided view), the whole step is LibTorch's own. Distinct parameters may not
// overlap in memory. Not thread-safe, as LibTorch's.
class FusedSgd : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class FusedAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class FusedAdagrad : public torch::optim::Adagrad {
 public:
  using torch::optim::Adagrad::Adagrad;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace convoy::train
