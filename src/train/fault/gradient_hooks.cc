#include "train/fault/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

namespace convoy::train {
namespace {

class FaultGradientHook final : public torch::autograd::FunctionPostHook {
 public:
  // The node owns the hook.
  FaultGradientHook(const torch::autograd::Node& node, std::shared_ptr<const SawGradients> saw)
      : node_(node), saw_(std::move(saw)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    (*saw_)(node_, inputs, outputs);
    return outputs;
  }

 private:
  const torch::autograd::Node& node_;
  std::shared_ptr<const SawGradients> saw_;
};

}  // namespace

void hook_gradients(const torch::Tensor& root, SawGradients saw) {
  const auto shared = std::make_shared<const SawGradients>(std::move(saw));
  std::unordered_set<torch::autograd::Node*> known;
  std::vector<torch::autograd::Node*> left{root.grad_fn().get()};
  while (!left.empty()) {
    torch::autograd::Node* const node = left.back();
    left.pop_back();
    if (node == nullptr || !known.insert(node).second) continue;
    const torch::autograd::edge_list& edges = node->next_edges();
    if (edges.empty()) continue;
    node->add_post_hook(std::make_unique<FaultGradientHook>(*node, shared));
    for (const torch::autograd::Edge& edge : edges) left.push_back(edge.function.get());
  }
}

}  // namespace convoy::train
