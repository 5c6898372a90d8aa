// Layers as data: what follows from a layer's kind and numbers alone. No Torch header.
//
// Shapes are those of one sample; tensors have the batch as one more dimension before them. An
// image is [channels, height, width].
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "convoy/base/slice.h"

namespace convoy::model {

using Shape = std::vector<std::int64_t>;

std::int64_t elements_of(const Shape& shape);
// "[3, 224, 224]"
std::string text_of(const Shape& shape);

// Says how the elements of a parameter or buffer begin.
struct FirstValues {
  enum class Rule {
    zeros,
    ones,
    uniform,  // in [-scale, scale]
    normal,   // of mean 0 and deviation `scale`
    as_made,  // as the user's module has them
  };
  Rule rule = Rule::zeros;
  double scale = 0;
  bool operator==(const FirstValues&) const = default;
};

// This is a parameter or a buffer of a layer.
struct TensorInfo {
  std::string name;  // in the network, such as "features.0.weight"
  Shape shape;
  FirstValues first;
  bool buffer = false;  // no gradient
  bool whole_numbers = false;
};

struct UserModule;  // a module of LibTorch's, in model/modules.h

namespace layer {

// Height and width.
using Pair = std::array<std::int64_t, 2>;

// First weights of convolutions and fully connected layers.
enum class Weights {
  fan_in_uniform,  // LibTorch's: weights and biases uniform in +-1 / sqrt(fan_in)
  fan_out_normal,  // Kaiming's for ReLU: deviation sqrt(2 / fan_out); biases as LibTorch's
  small_normal,    // deviation 0.01; biases as LibTorch's
  xavier,          // Caffe's: uniform in +-sqrt(3 / fan_in), biases 0
  sigmoid,         // Glorot's for sigmoids: in +-4 sqrt(6 / (fan_in + fan_out)), biases 0
};

struct Convolution {  // of images
  std::int64_t in = 0, out = 0;
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = true;
  Weights first = Weights::fan_in_uniform;
  bool zero_bias = false;  // biases begin at 0, whatever `first` says of them
};

struct Linear {  // over the last dimension
  std::int64_t in = 0, out = 0;
  bool bias = true;
  Weights first = Weights::fan_in_uniform;
  bool zero_bias = false;  // as a convolution's
};

// This is a convolution without shared weights: every position of the output has filters of its
// own. Parameters: weight [height, width, out, in, kernel height, kernel width] and bias [height,
// width, out], of height x width positions, so that a part of the output's rows is one run of
// either.
struct LocallyConnected {  // of images
  std::int64_t in = 0, out = 0;
  Pair image{0, 0};  // height and width of its input, on which the number of weights depends
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0};
  bool bias = true;
  Weights first = Weights::fan_in_uniform;
};

// Normalizes over the first dimension of a sample, the channels. In training its values depend on
// all samples and positions of a channel, through their mean and variance.
struct BatchNorm {
  std::int64_t channels = 0;
  double first_weight = 1;  // or 0
  double epsilon = 1e-5, momentum = 0.1;
};

struct Relu {};

struct Relu6 {};  // min(max(x, 0), 6)

struct Sigmoid {};

struct MaxPool {
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0};
  // Where windows leave rows or columns over, one more takes these (LibTorch's ceil_mode).
  bool ceil = false;
};

struct AveragePool {  // positions of the padding count as zeros
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0};
};

// sqrt(epsilon + sum of the squares in the window), of each channel (Le et al. 2012; positions of
// the padding count as zeros). With epsilon the gradient is 0 where all values are.
// Computed in float32 at least.
struct L2Pool {
  Pair kernel{2, 2}, stride{2, 2}, padding{0, 0};
  double epsilon = 1e-8;
};

// Local contrast normalization (Jarrett et al. 2009, Le et al. 2012): of x at channel i and
// position (j, k)
//
//   v[i, j, k] = x[i, j, k] - mean(x)[j, k]
//   y[i, j, k] = v[i, j, k] / max(c, sigma[j, k]),  sigma = sqrt(mean(v^2))
//
// where mean is over all C channels and the window around a position:
//
//   mean(u)[j, k] = sum over p, q of w[p, q] * (sum over i of u[i, j + p, k + q]) / (C W[j, k])
//
// with W[j, k] the sum of the weights w[p, q] that lie on the image: at borders the others count
// for more. An output depends on positions up to two half windows away, and on all channels.
// Computed in float32 at least.
struct LocalContrastNorm {
  Pair window{5, 5};     // odd
  double deviation = 0;  // w[p, q] = exp(-(p^2 + q^2) / (2 deviation^2)); 0: all are 1
  double least = 0.01;   // c
  // c is the mean of sigma over the sample where that is more, as Jarrett et al. have it: every
  // output then depends on the whole input.
  bool mean_as_least = false;
};

struct AdaptiveAveragePool {
  Pair size{1, 1};  // of the output
};

// Takes every so many rows and columns of an image, from the first ones on, and channels of zeros
// after its own, up to `channels`: the shortcut of residual networks that has no parameters (He et
// al. 2015, option A).
struct Subsample {
  std::int64_t channels = 0;  // of the output
  Pair stride{2, 2};
};

struct Flatten {};  // a sample to one dimension

struct Dropout {
  double probability = 0.5;  // in [0, 1)
};

struct Add {};  // two or more of one shape

struct Concatenate {
  std::size_t dimension = 0;  // of a sample: 0 are the channels
};

// This is a module, mostly of the user's, with one input, which is not looked into.
struct Opaque {
  std::string type;                 // for people
  std::vector<TensorInfo> tensors;  // what it has
  std::function<Shape(const Shape& input)> output;
  // Says on which part of the input a part of the output depends; empty: on everything.
  std::function<Slice(const Shape& input, const Slice& output)> required;
  // Counts the multiplications with additions for one sample; empty: not known, which counts as
  // none.
  std::function<std::int64_t(const Shape& input)> macs;
  // Says whether its module computes parts of its output (PartModule in model/modules.h), so that
  // it can be divided over machines.
  bool in_parts = false;
  // Says on which part of one of its tensors, given whole, a part of the output depends; empty: on
  // all of each.
  std::function<Slice(const Slice& tensor, const Slice& output)> required_tensor = nullptr;
  // Makes the module, for a node that holds none: it is built where it is computed. Its parameters
  // and buffers are `tensors`, which say how they begin. What divides networks refuses it.
  std::function<std::shared_ptr<const UserModule>()> make = nullptr;
};

using Kind = std::variant<Convolution, LocallyConnected, Linear, BatchNorm, Relu, Relu6, Sigmoid,
                          MaxPool, AveragePool, L2Pool, LocalContrastNorm, AdaptiveAveragePool,
                          Subsample, Flatten, Dropout, Add, Concatenate, Opaque>;

}  // namespace layer

// This is one layer, in the graph of its stage.
struct Node {
  // Path of its module in the network, such as "layer1.0.conv1". It is empty where the network is
  // this one layer, which is Opaque: its tensors have the names that the module gives them.
  std::string name;
  layer::Kind kind;
  std::vector<std::string> inputs;           // names of nodes before it, or of the stage's inputs
  std::shared_ptr<const UserModule> module;  // null: everything follows from the kind
};

// All functions below throw UsageError, beginning with "layer 'NAME'", when the node's numbers make
// no sense, or shapes don't fit it.

// "convolution", "batch_norm", ...
const char* kind_name(const Node& node);

// Gives the parameters, then the buffers, in the order in which modules register them.
std::vector<TensorInfo> tensors_of(const Node& node);

Shape output_shape(const Node& node, std::span<const Shape> inputs);

// Counts the multiplications with additions of convolutions, locally and fully connected layers,
// for one sample. Biases don't count, nor do other kinds.
std::int64_t macs(const Node& node, std::span<const Shape> inputs);

// Gives for each input the smallest box that holds all elements on which those of `output`, a slice
// of the output's shape, depend. What padding adds is not part of an input; a box can be empty. In
// training a batch normalization depends on more, see layer::BatchNorm.
std::vector<Slice> required_input(const Node& node, std::span<const Shape> inputs,
                                  const Slice& output);

// Gives the parts of its parameters and buffers from which those elements are computed.
std::vector<Slice> required_parameters(const Node& node, std::span<const Shape> inputs,
                                       const Slice& output);

}  // namespace convoy::model
