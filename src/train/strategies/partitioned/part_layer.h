// A layer of which this rank computes a part.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/model/partition.h"
#include "convoy/model/stage.h"
#include "model/execution/gradient_in_pieces.h"

namespace convoy::train {

class PartLayer {
 public:
  // What partition `partition` has of it. First values depend on seed, name and element alone.
  // `shapes`: of the inputs. Throws UsageError naming the layer where its kind can't be had in
  // parts.
  PartLayer(const model::Node& node, const model::PartitionedNode& place,
            std::vector<model::Shape> shapes, const Slice& output, int partition,
            std::uint64_t seed);

  const model::Node& node() const { return node_; }
  // Null where there is nothing to keep.
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  // What this rank has of parameters and buffers that are divided.
  const std::map<std::string, Slice>& parts() const { return parts_; }
  const Slice& output() const { return output_; }
  // Whether this rank computes nothing of it.
  bool empty() const { return output_.elements() == 0; }

  // Computes `out`, a part of output(), for each sample. `boxes` say what the inputs hold, which is
  // what `out` needs or more. Of an output that is computed in pieces, which together are all of
  // output(), `pieces` puts the parameters' gradients together.
  torch::Tensor compute(const model::Tensors& inputs, const std::vector<Slice>& boxes,
                        const Slice& out, bool in_place,
                        model::GradientInPieces* pieces = nullptr) const;
  // Computes all of output() of a batch normalization, whose statistics are of other ranks, too: to
  // be called also where this rank has none of it.
  torch::Tensor normalize(const torch::Tensor& input, const Slice& box) const;
  // The parts of inputs that `out` needs.
  std::vector<Slice> required(const Slice& out) const;
  // Gives the rows of output() that need only what `tile`, a part of the first input, holds of it.
  // Empty where rows can't be computed one by one.
  Slice interior(const Slice& tile) const;

 private:
  struct Build;
  struct Request {
    const std::vector<Slice>& boxes;  // exactly what `out` needs of the inputs
    const Slice& out;
    bool in_place = false;
    model::GradientInPieces* pieces = nullptr;
  };
  // With the inputs cut to these boxes.
  using Compute = std::function<torch::Tensor(const model::Tensors& inputs, const Request&)>;

  model::Node node_;
  std::vector<model::Shape> shapes_;
  Slice output_;
  std::map<std::string, Slice> parts_;
  std::shared_ptr<torch::nn::Module> module_;
  Compute compute_;
  bool windows_ = false;  // slide over its input
};

}  // namespace convoy::train
