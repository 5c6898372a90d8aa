#include "convoy/model/modules.h"

#include <optional>
#include <typeinfo>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/linear.h"
#include "model/execution/torch_error.h"
#include "model/keep_modes.h"

namespace convoy::model {
namespace {

namespace nn = torch::nn;

layer::Pair pair_of(const torch::ExpandingArray<2>& array) { return {(*array)[0], (*array)[1]}; }

// The module if it is of this class. Of a class that is derived from it nobody knows what its
// forward does.
template <class Module>
const Module* exactly(const nn::Module& module) {
  return typeid(module) == typeid(Module) ? module.as<Module>() : nullptr;
}

// What a module is, if it is known; nothing also where its options are others than a kind has.
std::optional<layer::Kind> known_kind(const nn::Module& module) {
  if (const auto* conv = exactly<nn::Conv2dImpl>(module)) {
    const auto& o = conv->options;
    const auto* padding = std::get_if<torch::ExpandingArray<2>>(&o.padding());
    if (padding == nullptr || !std::holds_alternative<torch::enumtype::kZeros>(o.padding_mode()))
      return std::nullopt;
    return layer::Convolution{o.in_channels(),     o.out_channels(),  pair_of(o.kernel_size()),
                              pair_of(o.stride()), pair_of(*padding), pair_of(o.dilation()),
                              o.groups(),          o.bias()};
  }
  if (const auto* linear = exactly<nn::LinearImpl>(module)) {
    const auto& o = linear->options;
    return layer::Linear{o.in_features(), o.out_features(), o.bias()};
  }
  if (const auto* linear = exactly<LinearImpl>(module)) {
    const auto& o = linear->options;
    return layer::Linear{o.in_features(), o.out_features(), o.bias()};
  }
  if (const auto* norm = exactly<nn::BatchNorm2dImpl>(module)) {
    const auto& o = norm->options;
    if (!o.affine() || !o.track_running_stats() || !o.momentum()) return std::nullopt;
    return layer::BatchNorm{o.num_features(), 1, o.eps(), *o.momentum()};
  }
  if (exactly<nn::ReLUImpl>(module) != nullptr) return layer::Relu{};
  if (exactly<nn::ReLU6Impl>(module) != nullptr) return layer::Relu6{};
  if (exactly<nn::SigmoidImpl>(module) != nullptr) return layer::Sigmoid{};
  if (const auto* pool = exactly<nn::MaxPool2dImpl>(module)) {
    const auto& o = pool->options;
    if (pair_of(o.dilation()) != layer::Pair{1, 1}) return std::nullopt;
    return layer::MaxPool{pair_of(o.kernel_size()), pair_of(o.stride()), pair_of(o.padding()),
                          o.ceil_mode()};
  }
  if (const auto* pool = exactly<nn::AvgPool2dImpl>(module)) {
    const auto& o = pool->options;
    if (o.ceil_mode() || !o.count_include_pad() || o.divisor_override()) return std::nullopt;
    return layer::AveragePool{pair_of(o.kernel_size()), pair_of(o.stride()), pair_of(o.padding())};
  }
  if (const auto* pool = exactly<nn::AdaptiveAvgPool2dImpl>(module)) {
    const auto& size = *pool->options.output_size();
    if (!size[0] || !size[1]) return std::nullopt;
    return layer::AdaptiveAveragePool{{*size[0], *size[1]}};
  }
  if (const auto* flatten = exactly<nn::FlattenImpl>(module)) {
    const auto& o = flatten->options;
    if (o.start_dim() != 1 || o.end_dim() != -1) return std::nullopt;
    return layer::Flatten{};
  }
  if (const auto* dropout = exactly<nn::DropoutImpl>(module)) {
    if (!(dropout->options.p() < 1)) return std::nullopt;
    return layer::Dropout{dropout->options.p()};
  }
  if (const auto* dropout = exactly<DropoutImpl>(module)) {
    // With a name of its own it drops what others of that name do.
    if (!dropout->layer().empty()) return std::nullopt;
    return layer::Dropout{dropout->probability()};
  }
  return std::nullopt;
}

std::vector<TensorInfo> tensors_in(const nn::Module& module) {
  std::vector<TensorInfo> all;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor, bool buffer) {
    if (!tensor.defined()) return;
    all.push_back({name,
                   tensor.sizes().vec(),
                   {FirstValues::Rule::as_made, 0},
                   buffer,
                   !tensor.is_floating_point()});
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value(), false);
  for (const auto& item : module.named_buffers()) add(item.key(), item.value(), true);
  return all;
}

// The shape of what the module makes of one blank sample, in evaluation mode.
Shape output_when_run(const std::string& name, nn::AnyModule module, const Shape& input) {
  const torch::NoGradGuard no_grad;
  nn::Module& layer = *module.ptr();
  const KeepModes modes(layer);
  layer.eval();
  Shape batch = input;
  batch.insert(batch.begin(), 1);
  torch::TensorOptions options;
  for (const torch::Tensor& parameter : layer.parameters()) options = parameter.options();
  try {
    const torch::Tensor output = module.forward(torch::zeros(batch, options.requires_grad(false)));
    return output.sizes().slice(1).vec();
  } catch (const c10::Error& error) {
    throw UsageError("layer '" + name + "': can't take " + text_of(input) + ". " + text_of(error));
  }
}

layer::Opaque opaque_of(const std::string& name, const nn::AnyModule& module, Statement statement) {
  layer::Opaque opaque{module.ptr()->name(),
                       tensors_in(*module.ptr()),
                       std::move(statement.output),
                       std::move(statement.required),
                       std::move(statement.macs),
                       dynamic_cast<const PartModule*>(module.ptr().get()) != nullptr,
                       std::move(statement.required_tensor)};
  if (opaque.required_tensor && !opaque.in_parts) {
    throw UsageError("layer '" + name +
                     "' states which parts of its tensors it requires, but its " +
                     "module can't compute parts: derive " + opaque.type +
                     " from convoy::model::PartModule as well");
  }
  if (!opaque.output) {
    opaque.output = [name, module](const Shape& input) {
      return output_when_run(name, module, input);
    };
  }
  return opaque;
}

}  // namespace

PartModule::~PartModule() = default;

ModuleList::ModuleList(std::string name, Shape input)
    : blueprint_{std::move(name), {std::move(input)}, {}} {}

ModuleList& ModuleList::stage(std::string name) {
  own_stages_ = true;
  blueprint_.stages.push_back({std::move(name), {"input"}, {}, {"input"}});
  return *this;
}

ModuleList& ModuleList::add(std::string name, nn::AnyModule module, Statement statement) {
  if (module.is_empty()) throw UsageError("layer '" + name + "' has no module");
  if (!own_stages_) blueprint_.stages.push_back({name, {"input"}, {}, {"input"}});
  StageSpec& stage = blueprint_.stages.back();
  const auto known = known_kind(*module.ptr());
  Node node{name, {}, {stage.outputs.back()}, nullptr};
  const bool has_tensors = !tensors_in(*module.ptr()).empty();
  if (!known || has_tensors) {
    node.module = std::make_shared<const UserModule>(UserModule{module});
  }
  node.kind = known ? *known : layer::Kind(opaque_of(name, module, std::move(statement)));
  stage.nodes.push_back(std::move(node));
  stage.outputs = {std::move(name)};
  return *this;
}

ModuleList& ModuleList::add(const std::string& name, const nn::Sequential& modules) {
  std::size_t number = 0;
  for (const nn::AnyModule& module : *modules) add(name + "." + std::to_string(number++), module);
  return *this;
}

Blueprint ModuleList::blueprint() const {
  check(blueprint_);
  shapes_of(blueprint_, blueprint_.inputs);
  return blueprint_;
}

std::shared_ptr<StagedNetwork> ModuleList::network() const {
  return std::shared_ptr<StagedNetwork>(
      new StagedNetwork(blueprint(), Stage::UserModules::themselves));
}

bool normalizes_over_batch(const nn::Module& module) {
  return module.as<nn::BatchNorm1dImpl>() != nullptr ||
         module.as<nn::BatchNorm2dImpl>() != nullptr ||
         module.as<nn::BatchNorm3dImpl>() != nullptr ||
         module.named_buffers(/*recurse=*/false).contains("running_mean");
}

}  // namespace convoy::model
