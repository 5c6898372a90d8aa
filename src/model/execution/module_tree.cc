#include "model/execution/module_tree.h"

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
  torch::nn::Module& parent = parent_of(root, path);
  parent.register_module(path, module);
}

void register_under(torch::nn::Module& root, std::string path, const torch::Tensor& parameter) {
  torch::nn::Module& parent = parent_of(root, path);
  parent.register_parameter(path, parameter, parameter.requires_grad());
}

}  // namespace convoy::model
