// Stages that compute, and networks of them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/model/network.h"

namespace convoy::model {

using Tensors = std::vector<torch::Tensor>;

// This is one stage, built from its description alone: the rest of the network need not be there,
// and there can be any number of them in a process. Parameters and buffers have the names that they
// have in the network ("layer1.0.conv1.weight"). In training mode, on the CPU, of the default
// floating-point type. One thread at a time.
class Stage : public torch::nn::Module {
 public:
  // First values are those of (seed, name of the parameter, element). Modules of the user's are
  // copied, with their values. Throws UsageError as check() does, and for a module that can't be
  // copied (torch::nn::Cloneable can).
  Stage(StageSpec spec, std::uint64_t seed);
  ~Stage() override;

  // Gives one tensor for each input, with the batch as the first dimension; gives one for each
  // output. Doesn't change its inputs, but an output may be one of them. Throws UsageError for
  // another number of them, c10::Error for a wrong shape.
  Tensors forward(Tensors inputs);

  // Runs one layer alone, which doesn't change its inputs.
  torch::Tensor run(std::size_t node, const Tensors& inputs);

  const StageSpec& spec() const { return spec_; }

  // Is called before each layer computes in forward(), or in that of a network of this stage, and
  // after it (begins = false), unless that throws; in the thread that computes.
  using Observer = std::function<void(const Node& node, bool begins)>;
  // Tells this one from now on; an empty one (as at first) ends that, and costs nothing.
  void set_observer(Observer observer) { observer_ = std::move(observer); }

 private:
  friend class StagedNetwork;
  friend class ModuleList;
  enum class UserModules { copied, themselves };
  struct Step;

  Stage(StageSpec spec, UserModules modules);
  // What auxiliary outputs alone need is left out, and undefined, unless it is wanted.
  Tensors compute(Tensors values, bool auxiliary);

  StageSpec spec_;
  std::vector<Step> steps_;           // as the nodes
  std::vector<std::size_t> outputs_;  // places of values: inputs, then one for each node
  Observer observer_;
};

// This is a network that is the fold of its stages. Its modules have the tree and order of the
// layers' names; parameters and buffers are those of its stages.
class StagedNetwork : public Network {
 public:
  // Builds the network as Stage builds one stage.
  StagedNetwork(Blueprint blueprint, std::uint64_t seed);

  // Gives what the last stage puts out first: the scores.
  torch::Tensor forward(torch::Tensor images) override;
  // Takes one tensor for each input of the blueprint; gives all that the last stage puts out, in
  // evaluation mode without auxiliary outputs.
  Tensors run(const Tensors& inputs) override;
  // These are of the blueprint's first input, and of its scores for that.
  std::array<std::int64_t, 3> image_shape() const override;
  std::int64_t classes() const override { return classes_; }
  const Blueprint* blueprint() const override { return &blueprint_; }

  const std::vector<std::shared_ptr<Stage>>& stages() const { return stages_; }

 private:
  friend class ModuleList;
  StagedNetwork(Blueprint blueprint, Stage::UserModules modules);

  Blueprint blueprint_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::int64_t classes_ = 0;
};

// Sets parameters and buffers to their first values, those of the user's modules excepted: on any
// device, of any type and layout, whatever draws were made before.
void initialize(Stage& stage, std::uint64_t seed);
void initialize(StagedNetwork& network, std::uint64_t seed);

// Runs each layer on `inputs` (of the network, in evaluation mode, a batch of one is enough), and
// throws UsageError naming stage and layer where what a layer states isn't so: the shape of its
// output; the part of its input that parts of its output need, by changing everything else.
void check_stages(StagedNetwork& network, Tensors inputs);

}  // namespace convoy::model
