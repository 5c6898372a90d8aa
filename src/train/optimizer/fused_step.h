// One update of many tensors with convoy::optim's rules, private to the train layer.
#pragma once

#include <torch/torch.h>

#include <array>
#include <span>
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

  // For layer-wise rules, in place of run(): gives the sums of squares of each parameter, in the
  // order in which they were added; then makes the updates with a ratio for each. No parameter may
  // be added twice. The sums don't depend on the number of threads.
  std::vector<optim::Squares> accumulate();
  void run(const std::vector<double>& ratios);

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
    std::size_t item;
    std::int64_t begin;
    std::int64_t end;
  };
  // The arrays of a piece.
  template <typename T>
  struct Spans {
    std::span<T> weights;
    std::span<const T> gradient;
    std::array<std::span<T>, optim::Slots::kMaxSlots> state;
  };

  std::vector<Piece> pieces() const;
  template <typename T>
  Spans<T> spans_of(const Piece& piece) const;
  // use(item, spans, slots of state) for each piece, with its place among them, on all threads.
  template <typename Use>
  void for_each(const std::vector<Piece>& pieces, const Use& use) const;
  void finish();

  std::vector<Item> items_;
  std::unordered_set<const void*> seen_;
};

}  // namespace convoy::train
