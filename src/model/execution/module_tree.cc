#include "model/execution/module_tree.h"

namespace convoy::model {

void register_under(torch::nn::Module& root, const std::string& path,
                    const std::shared_ptr<torch::nn::Module>& module) {
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
  parent->register_module(path.substr(begin), module);
}

}  // namespace convoy::model
