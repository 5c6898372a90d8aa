#include "model/execution/layer_step.h"

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/linear.h"
#include "convoy/model/modules.h"
#include "model/execution/convolution.h"
#include "model/execution/l2_pool.h"
#include "model/execution/local_contrast_norm.h"
#include "model/execution/locally_connected.h"
#include "model/execution/module_tree.h"
#include "model/execution/torch_error.h"

namespace convoy::model {
namespace {

using torch::Tensor;

struct Build {
  const Node& node;

  template <class Compute>
  static LayerStep plain(Compute compute) {
    return {nullptr, std::move(compute)};
  }
  template <class Module>
  static LayerStep of(std::shared_ptr<Module> module) {
    return {module, [module](const Tensors& x, bool) { return module->forward(x[0]); }};
  }

  static LayerStep of_user(const std::shared_ptr<torch::nn::AnyModule>& module) {
    return {module->ptr(), [module](const Tensors& x, bool) { return module->forward(x[0]); }};
  }

  LayerStep operator()(const layer::Convolution& c) const {
    return of(std::make_shared<ConvolutionImpl>(c));
  }
  LayerStep operator()(const layer::LocallyConnected& l) const {
    return of(std::make_shared<LocallyConnectedImpl>(l, tensors_of(node)));
  }
  LayerStep operator()(const layer::Linear& l) const {
    return of(std::make_shared<LinearImpl>(torch::nn::LinearOptions(l.in, l.out).bias(l.bias),
                                           LinearImpl::Unset()));
  }
  LayerStep operator()(const layer::BatchNorm& b) const {
    return of(std::make_shared<torch::nn::BatchNorm2dImpl>(
        torch::nn::BatchNorm2dOptions(b.channels).eps(b.epsilon).momentum(b.momentum)));
  }
  LayerStep operator()(const layer::Relu&) const {
    return plain([](const Tensors& x, bool in_place) {
      Tensor input = x[0];
      return in_place ? input.relu_() : input.relu();
    });
  }
  LayerStep operator()(const layer::Relu6&) const {
    return plain([](const Tensors& x, bool in_place) {
      Tensor input = x[0];
      return in_place ? torch::hardtanh_(input, 0, 6) : torch::hardtanh(input, 0, 6);
    });
  }
  LayerStep operator()(const layer::Sigmoid&) const {
    return plain([](const Tensors& x, bool in_place) {
      Tensor input = x[0];
      return in_place ? input.sigmoid_() : input.sigmoid();
    });
  }
  LayerStep operator()(const layer::L2Pool& p) const {
    return plain([p](const Tensors& x, bool) { return l2_pool(x[0], p); });
  }
  LayerStep operator()(const layer::LocalContrastNorm& n) const {
    return plain([n](const Tensors& x, bool) { return local_contrast_norm(x[0], n); });
  }
  LayerStep operator()(const layer::MaxPool& p) const {
    return plain([p](const Tensors& x, bool) {
      return torch::max_pool2d(x[0], p.kernel, p.stride, p.padding, /*dilation=*/1, p.ceil);
    });
  }
  LayerStep operator()(const layer::AveragePool& p) const {
    return plain([p](const Tensors& x, bool) {
      return torch::avg_pool2d(x[0], p.kernel, p.stride, p.padding);
    });
  }
  LayerStep operator()(const layer::AdaptiveAveragePool& p) const {
    return plain([p](const Tensors& x, bool) { return torch::adaptive_avg_pool2d(x[0], p.size); });
  }
  LayerStep operator()(const layer::Subsample& s) const {
    return plain([s](const Tensors& x, bool) {
      const Tensor kept =
          x[0].slice(2, 0, x[0].size(2), s.stride[0]).slice(3, 0, x[0].size(3), s.stride[1]);
      return torch::constant_pad_nd(kept, {0, 0, 0, 0, 0, s.channels - kept.size(1)});
    });
  }
  LayerStep operator()(const layer::Flatten&) const {
    return plain([](const Tensors& x, bool) { return x[0].flatten(1); });
  }
  LayerStep operator()(const layer::Dropout& d) const {
    return of(std::make_shared<DropoutImpl>(d.probability, node.name));
  }
  LayerStep operator()(const layer::Add&) const {
    return plain([](const Tensors& x, bool in_place) {
      Tensor sum = x[0];
      for (std::size_t i = 1; i < x.size(); ++i) {
        if (in_place || i > 1) {
          sum += x[i];
        } else {
          sum = sum + x[i];
        }
      }
      return sum;
    });
  }
  LayerStep operator()(const layer::Concatenate& c) const {
    return plain([d = static_cast<std::int64_t>(c.dimension) + 1](const Tensors& x, bool) {
      return torch::cat(x, d);
    });
  }
  LayerStep operator()(const layer::Opaque& o) const {
    if (o.make) return of_user(std::make_shared<torch::nn::AnyModule>(o.make()->module));
    throw UsageError("layer '" + node.name + "': there is no module of the type " + o.type +
                     " to compute it");
  }
};

}  // namespace

torch::nn::AnyModule copy_of(const Node& node) {
  const torch::nn::AnyModule& module = node.module->module;
  const auto refuse = [&node](const std::string& why) {
    throw UsageError("layer '" + node.name + "': its module can't be copied" + why);
  };
  torch::nn::AnyModule copy;
  try {
    copy = module.clone();
  } catch (const c10::Error& error) {
    refuse("; derive its class from torch::nn::Cloneable. " + text_of(error));
  }
  // Of a class that leaves copying to the one that it is derived from there is no copy.
  if (copy.ptr() == nullptr) {
    refuse(
        ": a copy of it is of another class, which it is derived from. Let its class override "
        "clone(), or derive it from torch::nn::Cloneable");
  }
  copy_modes(*module.ptr(), *copy.ptr());
  return copy;
}

LayerStep make_layer_step(const Node& node, bool copy_user_module) {
  if (node.module == nullptr) return std::visit(Build{node}, node.kind);
  return Build::of_user(std::make_shared<torch::nn::AnyModule>(
      copy_user_module ? copy_of(node) : node.module->module));
}

}  // namespace convoy::model
