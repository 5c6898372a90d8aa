#include "model/execution/module_tree.h"

#include <map>

#include "convoy/base/error.h"
#include "convoy/model/modules.h"

namespace convoy::model {

namespace {

// The module above the last name of the path, which comes out as that name alone.
torch::nn::Module& parent_of(torch::nn::Module& root, std::string& path) {
  torch::nn::Module* parent = &root;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = path.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string name = path.substr(begin, dot - begin);
    const auto children = parent->named_children();
    const auto* known = children.find(name);
    parent = known != nullptr
                 ? known->get()
                 : parent->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
  }
  path.erase(0, begin);
  return *parent;
}

}  // namespace

void register_under(torch::nn::Module& root, std::string path,
                    const std::shared_ptr<torch::nn::Module>& module) {
  if (path.empty()) {
    for (const auto& item : module->named_parameters(/*recurse=*/false))
      root.register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (const auto& item : module->named_buffers(/*recurse=*/false))
      root.register_buffer(item.key(), item.value());
    for (const auto& item : module->named_children())
      root.register_module(item.key(), item.value());
    return;
  }
  torch::nn::Module& parent = parent_of(root, path);
  parent.register_module(path, module);
}

void register_under(torch::nn::Module& root, std::string path, const torch::Tensor& parameter) {
  torch::nn::Module& parent = parent_of(root, path);
  parent.register_parameter(path, parameter, parameter.requires_grad());
}

void copy_modes(const torch::nn::Module& from, torch::nn::Module& to) {
  // A module takes its children along: they come behind it.
  if (to.is_training() != from.is_training()) to.train(from.is_training());
  const auto parameters = to.named_parameters(/*recurse=*/false);
  for (const auto& parameter : from.named_parameters(/*recurse=*/false)) {
    const auto* own = parameters.find(parameter.key());
    if (own != nullptr) own->set_requires_grad(parameter.value().requires_grad());
  }
  const auto children = to.named_children();
  for (const auto& child : from.named_children()) {
    const auto* own = children.find(child.key());
    if (own != nullptr) copy_modes(*child.value(), **own);
  }
}

void check_apart(const Blueprint& blueprint) {
  struct Owner {
    std::string layer, tensor;
  };
  std::map<const c10::TensorImpl*, Owner> owners;
  const auto add = [&](const Node& node, const std::string& name, const torch::Tensor& tensor) {
    const auto [own, added] =
        owners.try_emplace(tensor.unsafeGetTensorImpl(), Owner{node.name, node.name + "." + name});
    if (added || own->second.layer == node.name) return;
    throw UsageError("layers '" + own->second.layer + "' and '" + node.name + "' share '" +
                     own->second.tensor +
                     "', and copies and parts of them would have one each: give the model as "
                     "ModuleList::network(), and train it whole, with strategy = \"sync\"");
  };
  for (const StageSpec& stage : blueprint.stages) {
    for (const Node& node : stage.nodes) {
      if (node.module == nullptr) continue;
      const auto& module = *node.module->module.ptr();
      for (const auto& item : module.named_parameters()) add(node, item.key(), item.value());
      for (const auto& item : module.named_buffers()) add(node, item.key(), item.value());
    }
  }
}

}  // namespace convoy::model
