// A network of which this rank has a part (Dean et al. 2012, section 3).
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/model/partition.h"
#include "parallel/sync_batch_norm.h"
#include "train/strategies/partitioned/fetch.h"
#include "train/strategies/partitioned/links.h"
#include "train/strategies/partitioned/part_layer.h"

namespace convoy::train {

// Whose statistics batch normalization takes in training; null: this rank's own.
struct PartitionedStatistics {
  parallel::SynchronizedBatchNorm* images = nullptr;  // of layers that are divided by position
  parallel::SynchronizedBatchNorm* units = nullptr;   // of others
};

// How ranks go through the network together. Lives until backward is over.
struct PartitionedPass {
  Links& links;
  Rows rows;                          // of each rank's samples
  std::vector<at::ScalarType> types;  // of values, in which they travel: value_types()
  PartitionedStatistics statistics = {};
  bool overlap = true;  // what needs nothing from others is computed while that is on its way
  // In training, from which follows what modules of the user's draw from LibTorch's generator: the
  // same on all ranks.
  std::optional<std::uint64_t> seed = std::nullopt;

  std::vector<std::unique_ptr<Fetch>> fetches = {};
  // These are for layers whose output is computed in pieces.
  std::vector<std::unique_ptr<model::GradientInPieces>> pieces = {};
  // What this rank's loss has to depend on, see end_of_pass().
  std::vector<torch::Tensor> tokens() const;
  // After backward. Throws UsageError naming a parameter whose gradient it has lost.
  void check_backward() const;
};

// Parameters and buffers under the names that they have in the whole.
class PartitionedNetwork final : public torch::nn::Module {
 public:
  // First values depend on seed, name and element alone. Throws UsageError naming layers where it
  // can't be done.
  PartitionedNetwork(model::Blueprint blueprint, model::PartitionPlan plan, std::uint64_t seed,
                     int partition);

  const model::PartitionPlan& plan() const { return plan_; }
  const model::Blueprint& blueprint() const { return blueprint_; }
  // What this rank computes, by node of the plan.
  const std::vector<PartLayer>& layers() const { return layers_; }
  // What this rank has of tensors that are divided; of some nothing.
  const std::map<std::string, Slice>& parts() const { return parts_; }
  // Parameters of layers of which this rank computes nothing, and which it has since others do.
  const std::vector<torch::Tensor>& idle() const { return idle_; }
  bool drops_units() const { return drops_units_; }

  // `inputs` are those of this rank's samples, the outputs too. In evaluation mode there are no
  // auxiliary outputs, and what they alone need is not computed, as in a StagedNetwork. Collective.
  model::Tensors run(PartitionedPass& pass, const model::Tensors& inputs);
  // Runs it as run() does, but gives what this rank has of the outputs for all samples. REQUIRES:
  // no output is an input.
  model::Tensors run_parts(PartitionedPass& pass, const model::Tensors& inputs);
  // Every rank has all inputs, and gets all outputs. Collective; without gradients.
  model::Tensors run_alike(PartitionedPass& pass, const model::Tensors& inputs);

 private:
  // Where a value is while the network runs.
  struct Here {
    torch::Tensor tile;  // what this rank holds, or of an input what it needs
    Slice held;          // which part that is
    Fetch* fetch = nullptr;
    torch::Tensor all;  // what it needs, once that was fetched
  };
  void note_last_readers();
  Fetch& add_fetch(PartitionedPass& pass, Route route, Fetch::Way way) const;
  std::vector<Here> start_inputs(PartitionedPass& pass, const model::Tensors& inputs) const;
  void compute_all(PartitionedPass& pass, std::vector<Here>& values) const;
  void seed_generator(const PartitionedPass& pass, std::size_t node) const;
  torch::Tensor compute(PartitionedPass& pass, std::size_t node, std::vector<Here>& values) const;
  torch::Tensor compute_around(PartitionedPass& pass, std::size_t node, Here& input) const;
  void pass_on(PartitionedPass& pass, std::size_t value, torch::Tensor tile,
               std::vector<Here>& values) const;
  bool is_read_whole(std::size_t node, std::size_t input) const;
  model::Tensors outputs(PartitionedPass& pass, const model::Tensors& inputs,
                         std::vector<Here>& values, bool home) const;
  static void finish_all(PartitionedPass& pass);

  model::Blueprint blueprint_;
  model::PartitionPlan plan_;
  std::size_t partition_ = 0;
  std::vector<PartLayer> layers_;
  std::vector<bool> in_place_;                       // by layer
  std::vector<bool> auxiliary_;                      // by layer, for auxiliary outputs alone
  std::vector<Slice> interiors_;                     // by layer; empty: all at once
  std::vector<std::size_t> fetchers_;                // by value, layers that read what others hold
  std::vector<std::vector<std::size_t>> last_read_;  // by layer, values that it reads as the last
  std::map<std::string, Slice> parts_;
  std::vector<torch::Tensor> idle_;
  bool drops_units_ = false;
};

}  // namespace convoy::train
