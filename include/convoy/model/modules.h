// A network of one's own as a list of modules.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/model/partition.h"
#include "convoy/model/stage.h"

namespace convoy::model {

// This is a module as it is, held by the nodes of a blueprint.
struct UserModule {
  torch::nn::AnyModule module;
};

// This is what a module that Convoy doesn't know says of itself. What is left out is found by
// running it (its output), or assumed (every output depends on the whole input; macs are not
// known). Shapes are those of a sample.
struct Statement {
  std::function<Shape(const Shape& input)> output = nullptr;
  std::function<Slice(const Shape& input, const Slice& output)> required = nullptr;
  std::function<std::int64_t(const Shape& input)> macs = nullptr;
  // Says for a PartModule on which part of a parameter or buffer, given whole under its name in the
  // module, a part of the output depends. Machines that divide the layer hold these alone: what one
  // of them holds no other may, unless all hold the whole. Where it is left out, all hold all of
  // them.
  std::function<Slice(const Slice& tensor, const Slice& output)> required_tensor = nullptr;
};

// This is a part of a layer, to be computed.
struct ModulePart {
  Slice input;   // of each sample's input: what Statement::required says of `output`
  Slice output;  // of each sample's output
  // These are parameters and buffers by their names in the module, of each what
  // Statement::required_tensor says of `output`. Where machines divide them, members of the module
  // hold more or less.
  std::map<std::string, torch::Tensor> tensors;
};

// This is what a module's class is derived from, too, if it can compute any box of its output from
// a box of its input. Its layer can then be divided over machines (docs/partitioned.md); each has a
// copy of the module.
class PartModule {
 public:
  virtual ~PartModule();
  // x [N, part.input.size...] -> [N, part.output.size...], what forward gives there. Differentiated
  // by autograd, or by a torch::autograd::Function of its own. Doesn't change x.
  virtual torch::Tensor forward_part(const torch::Tensor& x, const ModulePart& part) = 0;
};

// Modules, each of one tensor, that are called one after the other:
//
//   ModuleList list("SmallNet", {3, 24, 24});
//   list.add("conv1", torch::nn::Conv2d(3, 8, 5)).add("relu1", torch::nn::ReLU());
//   list.add("mine", Mine());
//   auto network = list.network();
//
// Conv2d, Linear, BatchNorm2d, ReLU, ReLU6, Sigmoid, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d,
// Flatten and Dropout are known, and so are Convoy's own Linear and Dropout; every other module is
// whole, which means that its insides are not looked into. Those with weights keep them. ReLU,
// ReLU6, Sigmoid, pools and Flatten become Convoy's own, and so does Dropout, whose masks then
// depend on no rank. Known modules whose options Convoy has no use for (an AvgPool2d's ceil_mode,
// padding other than zeros, ...) are whole as well, and so are those of classes that are derived
// from known ones, which may compute something else.
class ModuleList {
 public:
  // input: the shape of a sample. Scores come out at the end.
  ModuleList(std::string name, Shape input);

  // A new stage begins. Without any, each module is a stage.
  ModuleList& stage(std::string name);
  ModuleList& add(std::string name, torch::nn::AnyModule module, Statement statement = {});
  template <class Module>
  ModuleList& add(std::string name, const Module& module, Statement statement = {}) {
    return add(std::move(name), torch::nn::AnyModule(module), std::move(statement));
  }
  // Adds its modules as NAME.0, NAME.1, ...
  ModuleList& add(const std::string& name, const torch::nn::Sequential& modules);

  // Both throw UsageError as check() and shapes_of() do.
  Blueprint blueprint() const;
  // Is made of these modules themselves, not of copies.
  std::shared_ptr<StagedNetwork> network() const;

 private:
  Blueprint blueprint_;
  bool own_stages_ = false;
};

// Whether the module itself, not what is inside it, takes statistics over a batch, as batch
// normalization does.
bool normalizes_over_batch(const torch::nn::Module& module);

// This is a layer that states more of its input than it reads.
struct Overstatement {
  std::string layer;
  std::string value;  // what it reads
  // These are of the first partition of which it is so: what it computes, what it states to need
  // for that, and the smallest box of it that changes the output.
  int partition = 0;
  Slice output, stated, read;
  // These count the values of that input that partitions send each other for one sample, and those
  // of them that nobody reads.
  double sent = 0, unread = 0;
};

// Computes each PartModule that the plan divides in the plan's parts, on an input drawn at random,
// and compares with the whole: values, and gradients of input and parameters. Throws UsageError
// naming layer and region where they differ, as they do where too small a region is stated. Returns
// where too large a one is. A module that can't take such values can't be checked: that is an
// error, too, or what it would say is added to `not_checked`, one text a layer. Of one partition a
// module that normalizes over the batch is left out: it has no parts that are right, and needs
// none. Copies of the modules are what computes. REQUIRES: a plan of this blueprint.
std::vector<Overstatement> check_parts(const Blueprint& blueprint, const PartitionPlan& plan,
                                       std::vector<std::string>* not_checked = nullptr);

}  // namespace convoy::model
