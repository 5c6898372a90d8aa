// A network divided over several machines (Dean et al. 2012, section 3): which part of each layer's
// output each partition computes, and what follows from that: which parameters it holds, and what
// it has to be sent by whom. No Torch header.
//
// All functions are pure: any thread may call them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/model/blueprint.h"

namespace convoy::model {

// Says how the output of a layer is divided.
enum class Division : std::uint8_t {
  whole,   // each partition computes all of it
  rows,    // of an image
  tiles,   // rows x columns of an image
  units,   // channels of an image, otherwise the last dimension
  follows  // as its first input is, for layers that work on each element alone
};
// "whole", "rows", "tiles", "units", "follows".
const char* text_of(Division division);
// Gives nothing for other texts.
std::optional<Division> division_of(std::string_view text);

struct LayerDivision {
  Division how = Division::rows;
  // These are the parts of the partitions, relative to each other; they are even where this is
  // empty. They are for rows and units alone.
  std::vector<double> parts = {};
  bool operator==(const LayerDivision&) const = default;
};

struct PartitionRules {
  int partitions = 1;
  // Says how images are divided where no layer's own rule says otherwise: by rows, by tiles, or not
  // (whole).
  LayerDivision images = {};
  // These are the parts of layers that are divided by units without a rule of their own; they are
  // even where this is empty.
  std::vector<double> units = {};
  // Rows x columns of partitions; 0 x 0: as near to a square as their number allows, with no fewer
  // rows than columns. Partitions are numbered row by row.
  std::array<int, 2> tiles{0, 0};
  // Has rules by the names of layers.
  std::map<std::string, LayerDivision> layers = {};
};

// This is what layers pass on: an input of the network, or the output of a layer. `tensor` of all
// slices is its name.
struct PartitionedValue {
  std::string name;
  Shape shape;  // of one sample
  // Has by partition what it holds: these are disjoint, and together all of it; or each has the
  // whole. Of inputs each has the whole, of some of the samples. Some can be empty.
  std::vector<Slice> tiles = {};
  bool whole = false;  // each partition has all of it, of all samples
  bool input = false;  // of the network: each partition has some of the samples
  // Has by partition the smallest box that holds what its layers read of it. It is empty where none
  // of them reads any.
  std::vector<Slice> needed = {};
  // Says whether a partition needs something that it doesn't hold; of an input: whether there are
  // several partitions, and one of them reads it.
  bool exchanged = false;
  bool trained = false;  // parameters lie before it, so that it has a gradient

  // Gives what partition `from` has of what `to` needs: of an input of each sample that `from` has.
  // An empty slice: nothing. What a partition has for itself is given as well; of what is whole
  // nobody needs anything from others.
  Slice piece(int from, int to) const;
};

struct PartitionedNode {
  std::size_t stage = 0, node = 0;       // in the blueprint
  Division how = Division::whole;        // never `follows`
  bool follows = false;                  // it is divided as its first input is
  bool divided_evenly = false;           // by rows or units, by no parts of a rule
  std::vector<std::size_t> inputs = {};  // values
  std::size_t output = 0;                // a value
  // Has by input and partition what it reads of that input.
  std::vector<std::vector<Slice>> required = {};
  // Has by partition and parameter or buffer (tensors_of) what it holds.
  std::vector<std::vector<Slice>> tensors = {};
  // Is true of a layer whose parameters, by unit or by position, are divided as its output is:
  // those of the partitions are disjoint, and together all of it (but for tensors of which
  // everybody has the whole, see divides()); who computes nothing has none. Of other layers
  // everybody has the whole, also who computes nothing; each has the gradient of what it computes
  // after them, and the sum over all partitions is that of the network, of layers that are `whole`
  // as well.
  bool divides_parameters = false;

  // Is true of a batch normalization where partitions have other positions of the same channels, so
  // that its statistics are of all of them together.
  bool shares_statistics = false;

  // Says whether partitions have parts of this parameter or buffer.
  bool divides(std::size_t tensor) const;
};

struct PartitionPlan {
  int partitions = 1;
  std::vector<PartitionedValue> values;  // the inputs, then the outputs of the nodes, in order
  std::vector<PartitionedNode> nodes;    // in the order of computing, those of all stages
  std::vector<std::size_t> outputs;      // values, of the network

  const Node& node_of(const Blueprint& blueprint, const PartitionedNode& node) const {
    return blueprint.stages[node.stage].nodes[node.node];
  }
};

// `inputs`: the shapes of the network's. Layers that no rule names:
//
//   convolution, locally_connected, pools, contrast normalization, subsample, concatenate of
//       images                        as rules.images; whole where their output has one row and
//                                     one column
//   adaptive average pool             units; follows where it changes nothing
//   linear                            units
//   flatten                           follows, of an image of one position or of one dimension;
//                                     otherwise whole
//   relu, sigmoid, dropout, batch norm, add            follows
//   concatenate of others             whole
//   a module of the user's            if it computes parts (PartModule in model/modules.h) as
//                                     rules.images, or by units if its output is no image;
//                                     otherwise whole
//
// What follows an input of the network is as rules.images if it is an image (whole if of one
// position), otherwise by units.
//
// What can be had: whole of all; rows and tiles of images (but of adaptive pools, whose windows are
// of different sizes); units of all but contrast normalization (which needs all channels of a
// position at once), convolutions with groups, and flatten of images of more than one position; of
// modules of the user's only if they compute parts; follows where it stands above.
//
// Throws UsageError: naming the layer, and what it can have, for a division that it can't; for
// parts that are not as many as partitions, negative or all 0, or of a division that has none; for
// tiles that are not as many as partitions, a rule that names no layer, and a blueprint or inputs
// that don't fit; for parameters of a module of the user's of which several would have the same
// part, or nobody some.
PartitionPlan plan_partition(const Blueprint& blueprint, const std::vector<Shape>& inputs,
                             const PartitionRules& rules);

// These are the values of one sample that partition `from` sends to `to`, in forward; as many
// gradients come back where the value is trained. Of inputs, and outputs: if each partition has an
// equal part of the samples.
struct PartitionTraffic {
  std::size_t value = 0;
  int from = 0, to = 0;
  double values = 0;
  bool output = false;  // to where the samples are, not to layers that read it
};
// Gives all that is sent, ascending by value, from and to. An output of the network goes to where
// the samples are, unless it is whole: of each sample all of it.
std::vector<PartitionTraffic> traffic_of(const PartitionPlan& plan);

// This is what a partition has and does, for one sample.
struct PartitionLoad {
  std::int64_t parameters = 0;  // that it holds
  std::int64_t buffers = 0;
  // Counts the parameters that all partitions hold: their gradients are to be summed.
  std::int64_t summed_parameters = 0;
  double macs = 0;
  // Counts what a training step keeps: its tiles, as activation_bytes counts them, and the boxes
  // that it puts together of what it has and what others sent.
  double activation_values = 0;
  // Counts what messages of forward take beside these, at the most: copies of what it sends, until
  // others have it, which can be as late as in backward, and of what it receives the most that is
  // under way at a time. Who gets the same gets it of one copy; all of a tile is sent as it lies
  // there.
  double message_values = 0;
  double sent_values = 0, received_values = 0;       // in forward
  double returned_values = 0, collected_values = 0;  // gradients in backward: sent, and received
};
std::vector<PartitionLoad> loads_of(const Blueprint& blueprint, const PartitionPlan& plan);

// Says how many bytes a partition's locally connected layers take for copies of what their filters
// see, where they are trained on so many samples whose values have `element` bytes each. A block of
// positions is copied at a time, whose memory is kept for the next step, each layer's by itself.
double local_copies(const Blueprint& blueprint, const PartitionPlan& plan, int partition,
                    std::int64_t samples, std::int64_t element);

}  // namespace convoy::model
