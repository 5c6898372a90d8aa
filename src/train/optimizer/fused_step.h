// One update of many tensors with convoy::optim's rules, private to the train layer.
#pragma once

#include <torch/torch.h>

#include <array>
#include <unordered_set>
#include <vector>

#include "convoy/optim/rule.h"

namespace convoy::train {

// Whether the rules can update this parameter: both tensors dense, float or double, on the CPU.
bool can_fuse(const torch::Tensor& parameter);

// Collects parameters, then updates them in one parallel loop. Use and drop within one step() of an
// optimizer, under NoGradGuard.
class FusedStep {
 public:
  // `slots` are the optimizer's own state tensors, in the order of optim::slots(rule). Undefined
  // ones are made, and those of another layout replaced. `step` counts from 1.
  void add(const optim::Rule& rule, std::int64_t step, const torch::Tensor& parameter,
           const std::vector<torch::Tensor*>& slots);
  void run();

 private:
  struct Item {
    optim::Rule rule;
    std::int64_t step;
    torch::Tensor parameter;
    torch::Tensor gradient;
    std::array<torch::Tensor, optim::Slots::kMaxSlots> state;
    std::size_t slots;
  };
  struct Piece {
    const Item* item;
    std::int64_t begin;
    std::int64_t end;
  };

  template <typename T>
  static void update(const Piece& piece);

  std::vector<Item> items_;
  std::unordered_set<const void*> seen_;
};

}  // namespace convoy::train
