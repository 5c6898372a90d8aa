// What a rank of a replica has of a network, as a parameter server knows it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/comm/communicator.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/server/client.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// A parameter or a running statistic that this rank has, all of it or a part.
struct OwnVector {
  std::uint32_t vector = 0;  // its place in the description
  torch::Tensor tensor;      // of the network
  bool statistic = false;    // no parameter
  // Whether this rank is the one that pushes it: what several have is pushed by the first of them.
  bool pushed = true;
  bool shared = false;     // several ranks have it
  double scale = 1;        // of the learning rate
  std::int64_t begin = 0;  // of its elements in blocks
};

// The vectors of all ranks of a replica, in the order of ranks, so that those of one are neighbors;
// and of this rank. Elements of several stand in a block, one vector after another, in C order,
// whatever the layout of the network's tensors.
class Vectors {
 public:
  // `parameters`: those of this rank that are trained. Statistics are the buffers of floating
  // numbers, but for counters. `parts`: which part of a tensor this rank has; others are whole.
  // Throws UsageError for tensors that are not of this type: that of blocks. Collective.
  Vectors(const comm::Communicator& ranks, const OptimizerRecipe& optimizer,
          const std::vector<parallel::NamedTensor>& parameters, const torch::nn::Module& module,
          const std::map<std::string, Slice>& parts, at::ScalarType type = torch::kFloat);

  const std::vector<server::VectorSpec>& specs() const { return specs_; }  // of all ranks
  const std::vector<OwnVector>& own() const { return own_; }
  // Gives the scale of each vector of all ranks; 0 for statistics.
  const std::vector<double>& scales() const { return scales_; }

  // Gives the numbers of the vectors that this rank pushes.
  std::vector<std::uint32_t> pushed() const;
  std::int64_t elements() const { return elements_; }  // of all of this rank's vectors
  // Makes a block for all of this rank's vectors, of zeros.
  torch::Tensor new_block() const;
  // Gives one of them as it lies in a block, with the tensor's shape.
  torch::Tensor view(const torch::Tensor& block, const OwnVector& own) const;
  // Those that follow are for blocks of float32.
  // Gives the memory that the vectors which this rank pushes have in the block.
  std::vector<server::ReadView> to_push(const torch::Tensor& block) const;
  // Give the memory of all of this rank's vectors.
  std::vector<server::ReadView> to_read(const torch::Tensor& block) const;
  std::vector<server::WriteView> to_write(torch::Tensor& block) const;
  // Gives the memory of those alone whose rule has a slot of this number in its state.
  std::vector<server::WriteView> to_write(torch::Tensor& block, std::uint32_t slot) const;

  // Gives what several ranks have the values that the first of them has. Collective.
  void share(const comm::Communicator& ranks) const;

 private:
  std::vector<server::VectorSpec> specs_;
  std::vector<double> scales_;
  std::vector<OwnVector> own_;
  std::int64_t elements_ = 0;
  at::ScalarType type_ = torch::kFloat;
};

}  // namespace convoy::train
