// A network of one's own as a list of modules.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "convoy/model/stage.h"

namespace convoy::model {

// A module as it is, held by the nodes of a blueprint.
struct UserModule {
  torch::nn::AnyModule module;
};

// What a module that Convoy doesn't know says of itself. What is left out is found by running it
// (its output), or assumed (every output depends on the whole input; macs are not known).
// Shapes are those of a sample.
struct Statement {
  std::function<Shape(const Shape& input)> output = nullptr;
  std::function<Slice(const Shape& input, const Slice& output)> required = nullptr;
  std::function<std::int64_t(const Shape& input)> macs = nullptr;
};

// Modules, each of one tensor, that are called one after the other:
//
//   ModuleList list("SmallNet", {3, 24, 24});
//   list.add("conv1", torch::nn::Conv2d(3, 8, 5)).add("relu1", torch::nn::ReLU());
//   list.add("mine", Mine());
//   auto network = list.network();
//
// Conv2d, Linear, BatchNorm2d, ReLU, Sigmoid, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Flatten and
// Dropout are known; every other module is whole, which means that its insides are not looked into.
// Those with weights keep them. ReLU, Sigmoid, pools and Flatten become Convoy's own, and so does
// Dropout, whose masks then depend on no rank. Known modules whose options Convoy has no use for
// (ceil_mode, padding other than zeros, ...) are whole as well.
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
  // Its modules as NAME.0, NAME.1, ...
  ModuleList& add(const std::string& name, const torch::nn::Sequential& modules);

  // Both throw UsageError as check() and shapes_of() do.
  Blueprint blueprint() const;
  // Of these modules themselves, not of copies.
  std::shared_ptr<StagedNetwork> network() const;

 private:
  Blueprint blueprint_;
  bool own_stages_ = false;
};

}  // namespace convoy::model
