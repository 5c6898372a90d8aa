// A network of which one rank has all of the first layers, and some units of the last ones.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/stage.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// A fully connected layer that is partitioned, with what works on its units alone behind it.
struct PartitionedLayer {
  std::string name;
  std::int64_t inputs = 0;             // of the whole layer, per sample
  std::vector<std::int64_t> units;     // of each partition
  std::shared_ptr<model::Stage> part;  // of this partition
};

// The names of the layers that are partitioned then, and what of a sample the first one takes,
// without making any of them. Throws as SplitNetwork does, but for units.
struct PartitionedNames {
  std::vector<std::string> layers;
  std::vector<std::vector<double>> parts;  // of the units of each, as the placement says
  std::int64_t inputs = 0;
  bool drop_units = false;  // they, or what works on their units, in training
};
PartitionedNames partitioned_layers(const model::Blueprint& blueprint,
                                    const std::vector<model::Shape>& inputs,
                                    const PlacementRecipe& placement);

// Parameters and buffers under the names that they have in the whole.
class SplitNetwork final : public torch::nn::Module {
 public:
  // Partitioned are the fully connected layers that the placement says, or else those behind the
  // last convolution. `inputs` are the shapes of the network's. First values depend on seed, name
  // and element alone. Throws UsageError naming layers where it can't be done: nothing is
  // partitioned, there are fewer units than partitions, or others than those layers and what works
  // on units alone follow, one after the other.
  SplitNetwork(const model::Blueprint& blueprint, const std::vector<model::Shape>& inputs,
               const PlacementRecipe& placement, std::uint64_t seed, int partition, int partitions);

  model::StagedNetwork& trunk() { return *trunk_; }
  const std::shared_ptr<model::StagedNetwork>& shared_trunk() const { return trunk_; }
  const std::vector<PartitionedLayer>& head() const { return head_; }
  // What this rank has of the parameters of partitioned layers.
  const std::map<std::string, Slice>& parts() const { return parts_; }
  int partition() const { return partition_; }
  // Parameters of the whole network.
  std::int64_t whole_parameters() const { return whole_parameters_; }
  // Whether partitioned layers drop units in training.
  bool drops_units() const { return drops_units_; }

  // Moves what is partitioned; the trunk is the caller's matter.
  void move_head(const torch::Device& device, at::ScalarType type);
  void train(bool on = true) override;

 private:
  void add_layer(const model::Node& node, const std::vector<double>& parts, std::uint64_t seed,
                 const model::Shape& input, std::vector<model::Node> behind, int partition,
                 int partitions);
  void adopt(const torch::nn::Module& part, const std::vector<model::Node>& nodes);

  std::shared_ptr<model::StagedNetwork> trunk_;
  std::vector<PartitionedLayer> head_;
  std::map<std::string, Slice> parts_;
  int partition_ = 0;
  std::int64_t whole_parameters_ = 0;
  bool drops_units_ = false;
};

}  // namespace convoy::train
