// A network as data: named stages, each a small graph of layers. No Torch header.
//
// Everything that is to be known of a network without building it follows from here: its
// parameters, shapes, costs, and which part of an input a part of an output needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/model/layers.h"

namespace convoy::model {

// This is a step of a network's forward, from a list of tensors to a list of tensors. Its nodes are
// in an order in which they can be computed.
struct StageSpec {
  std::string name;
  std::vector<std::string> inputs;  // names for what the stage before passes, in its order
  std::vector<Node> nodes;
  std::vector<std::string> outputs;  // nodes, or inputs that are passed on
};

// The forward of the network is the fold of its stages.
struct Blueprint {
  std::string name;
  std::vector<Shape> inputs;  // that the network was published with; others may work
  std::vector<StageSpec> stages;
  // Of auxiliary classifiers (Szegedy et al. 2014): how much the loss of each counts in training.
  // Their scores are what the last stage puts out behind those of the network, one for each. In
  // evaluation they aren't computed.
  std::vector<double> auxiliary = {};
};

// Says of each layer, by stage and in the order of its nodes, whether auxiliary outputs alone need
// it. REQUIRES: check() finds nothing.
std::vector<std::vector<bool>> auxiliary_layers(const Blueprint& blueprint);

// Gives stages first to first + count - 1 as a network of their own, whose inputs are what the
// stages before pass for the whole one's. Throws UsageError when there are not so many.
Blueprint some_stages(const Blueprint& whole, std::size_t first, std::size_t count);

struct LayerShapes {
  std::vector<Shape> inputs;
  Shape output;
};

struct StageShapes {
  std::vector<Shape> inputs;
  std::vector<LayerShapes> layers;  // in the order of the nodes
  std::vector<Shape> outputs;
};

// Throw UsageError naming stage and layer for what can't be built: no name, a name that is taken or
// lies within that of another layer, an input that nobody before gives, an output that nobody
// reads, a wrong number of inputs, stages that don't fit together, weights of auxiliary outputs
// that are not there or make no sense.
void check(const StageSpec& stage);
void check(const Blueprint& blueprint);

// Gives the shapes of all that is computed. Throw UsageError naming stage and layer where they
// don't fit.
StageShapes shapes_of(const StageSpec& stage, const std::vector<Shape>& inputs);
std::vector<StageShapes> shapes_of(const Blueprint& blueprint, const std::vector<Shape>& inputs);

// Gives for each input of a stage the smallest box that contains what the given parts of its
// outputs need. `outputs` has one slice for each output.
std::vector<Slice> required_input(const StageSpec& stage, const StageShapes& shapes,
                                  const std::vector<Slice>& outputs);

// Says whether a layer writes its output over its first input: a ReLU (6), sigmoid or sum that is
// the only reader of what a convolution, locally or fully connected layer, batch normalization or
// sum of its stage has computed (which need their outputs for nothing else).
bool in_place(const StageSpec& stage, std::size_t node);

// Says how many bytes a layer adds to what a training step keeps of one sample, of elements of
// `element` bytes: its output, unless it lies in memory that is there already (in_place, Flatten).
// Outputs of L2Pool and LocalContrastNorm are never narrower than float32.
std::int64_t activation_bytes(const StageSpec& stage, std::size_t node, const LayerShapes& shapes,
                              std::size_t element = 4);

// This is what all layers cost for one sample.
struct Cost {
  std::int64_t parameters = 0;
  std::int64_t macs = 0;
  std::int64_t activation_bytes = 0;
};
Cost cost_of(const StageSpec& stage, std::size_t node, const LayerShapes& shapes);
Cost cost_of(const Blueprint& blueprint, const std::vector<Shape>& inputs);

}  // namespace convoy::model
