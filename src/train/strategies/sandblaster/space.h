// A rank's parameters as vectors of a batch optimization.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "convoy/server/batch.h"
#include "train/strategies/downpour/vectors.h"

namespace convoy::train {

// Its vectors stand in memory one after another, in the order of the description; statistics are
// none of them. T: float or double, the type of the network.
template <typename T>
class BatchBlock {
 public:
  // `pushed`: only those that this rank is the first to have. Refers to the vectors.
  BatchBlock(const Vectors& vectors, bool pushed);

  std::span<const server::BatchView<T>> views() { return views_; }
  std::span<const server::BatchView<const T>> const_views() { return const_views_; }
  std::size_t size() const { return values_.size(); }
  // The weights of the network into here, and back.
  void take_weights();
  void set_weights() const;

 private:
  const Vectors& vectors_;
  std::vector<const OwnVector*> own_;
  std::vector<T> values_;
  std::vector<server::BatchView<T>> views_;
  std::vector<server::BatchView<const T>> const_views_;
};

// Adds `weight` times the network's gradients to what a BatchBlock<T>(vectors, true) holds of them;
// parameters without one have zeros.
template <typename T>
void add_gradients(const Vectors& vectors, double weight, std::span<T> to);

// What of a network a pass in training mode changes, so that the objective would be another one in
// each evaluation. Throws UsageError naming the buffer.
class OneFunction {
 public:
  // Throws for batch normalization.
  explicit OneFunction(const torch::nn::Module& module);
  // After a pass. Throws where another buffer is not as it was.
  void check() const;

 private:
  struct Kept {
    std::string name;
    torch::Tensor tensor, before;
  };
  std::vector<Kept> kept_;
};

}  // namespace convoy::train
