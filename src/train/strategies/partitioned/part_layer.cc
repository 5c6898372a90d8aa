#include "train/strategies/partitioned/part_layer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/linear.h"
#include "model/blueprint/sizes.h"
#include "model/execution/convolution.h"
#include "model/execution/cut.h"
#include "model/execution/l2_pool.h"
#include "model/execution/layer_step.h"
#include "model/execution/local_contrast_norm.h"
#include "model/execution/locally_connected.h"
#include "model/execution/module_tree.h"
#include "model/execution/user_part.h"
#include "train/strategies/part_values.h"

namespace convoy::train {
namespace {

using model::Window;
using torch::Tensor;
namespace layer = model::layer;

// The image under the windows of `out`: what lies beyond the image's borders is `value`.
Tensor padded(const Tensor& image, const Slice& box, const Slice& out, const Window& w,
              double value = 0) {
  std::vector<std::int64_t> around;  // the last dimension first
  bool any = false;
  for (std::size_t d = 2; d-- > 0;) {
    const std::int64_t begin = out.begin[d + 1] * w.stride[d] - w.padding[d];
    const std::int64_t end = begin + (out.size[d + 1] - 1) * w.stride[d] + w.reach(d);
    around.push_back(box.size[d + 1] == 0 ? 0 : box.begin[d + 1] - begin);
    around.push_back(end - begin - box.size[d + 1] - around.back());
    any = any || around[around.size() - 1] > 0 || around[around.size() - 2] > 0;
  }
  return any ? torch::constant_pad_nd(image, around, value) : image;
}

// Without elements, of so many rows. Backward goes through it all the same: what is before it may
// be other ranks' matter as well.
Tensor nothing_of(const model::Tensors& inputs, const std::vector<std::int64_t>& size) {
  std::vector<std::int64_t> shape{inputs.at(0).size(0)};
  shape.insert(shape.end(), size.begin(), size.end());
  Tensor none = torch::empty(shape, inputs[0].options());
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) none = none + input.slice(0, 0, 0).sum().to(none.scalar_type());
  }
  return none;
}

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Of a module of the user's of which this rank computes nothing: the parameters that everybody has.
std::shared_ptr<torch::nn::Module> shared_of(const model::Node& node,
                                             const model::PartitionedNode& place) {
  const auto& opaque = std::get<layer::Opaque>(node.kind);
  const auto parameters = node.module->module.ptr()->named_parameters();
  std::shared_ptr<torch::nn::Module> module;
  for (std::size_t i = 0; i < opaque.tensors.size(); ++i) {
    const std::string& name = opaque.tensors[i].name;
    if (opaque.tensors[i].buffer || place.divides(i)) continue;
    if (module == nullptr) module = std::make_shared<torch::nn::Module>(opaque.type);
    const bool trained = parameters[name].requires_grad();
    model::register_under(*module, name,
                          parameters[name].detach().clone().set_requires_grad(trained));
  }
  return module;
}

}  // namespace

// Makes the module of a part, and how it computes.
struct PartLayer::Build {
  PartLayer& own;
  const model::Node& whole;
  const model::PartitionedNode& place;
  int partition;
  const std::vector<Slice>& tensors;  // that are held

  [[noreturn]] void complain(const std::string& what) const {
    throw UsageError("layer '" + whole.name + "' " + what);
  }
  // As the layer itself does, with these numbers. The values of a user's module are copied by
  // part; one that is not looked into is copied.
  void as(layer::Kind kind) const {
    model::Node node = whole;
    if (!std::holds_alternative<layer::Opaque>(kind)) node.module = nullptr;
    node.kind = std::move(kind);
    const model::LayerStep step = make_layer_step(node, /*copy_user_module=*/true);
    own.module_ = step.module;
    own.compute_ = [compute = step.compute](const model::Tensors& x, const Request& r) {
      return compute(x, r.in_place);
    };
  }

  void operator()(const layer::Convolution& c) const {
    own.windows_ = true;
    layer::Convolution part = c;
    part.out = own.output_.size[0];
    part.padding = {0, 0};
    const auto module = std::make_shared<model::ConvolutionImpl>(part);
    own.module_ = module;
    own.compute_ = [module, part, window = model::window_of(c)](const model::Tensors& x,
                                                                const Request& r) {
      return torch::conv2d(padded(x[0], r.boxes[0], r.out, window), module->weight, module->bias,
                           part.stride, part.padding, part.dilation, part.groups);
    };
  }
  void operator()(const layer::LocallyConnected& l) const {
    own.windows_ = true;
    std::vector<model::TensorInfo> infos = tensors_of(whole);
    for (std::size_t i = 0; i < infos.size(); ++i) infos[i].shape = tensors[i].size;
    const auto module = std::make_shared<model::LocallyConnectedImpl>(l, infos);
    own.module_ = module;
    own.compute_ = [module, held = own.output_, window = model::window_of(l), stride = l.stride](
                       const model::Tensors& x, const Request& r) {
      const model::LocalPiece piece{held, r.out, r.pieces};
      return model::locally_connected(padded(x[0], r.boxes[0], r.out, window), module->weight,
                                      module->bias, stride, &piece);
    };
  }
  void operator()(const layer::Linear& l) const {
    layer::Linear part = l;
    part.out = own.output_.size.back();
    as(part);
  }
  void operator()(const layer::BatchNorm& b) const {
    layer::BatchNorm part = b;
    part.channels = own.output_.size[0];
    as(part);
  }
  template <class Pool, class Use>
  void pool(const Pool& p, double around, Use&& use) const {
    own.windows_ = true;
    Pool part = p;
    part.padding = {0, 0};
    own.compute_ = [part, around, window = model::window_of(p), use](const model::Tensors& x,
                                                                     const Request& r) {
      return use(padded(x[0], r.boxes[0], r.out, window, around), part);
    };
  }
  void operator()(const layer::MaxPool& p) const {
    pool(p, kNothing, [](const Tensor& x, const layer::MaxPool& part) {
      return torch::max_pool2d(x, part.kernel, part.stride);
    });
  }
  void operator()(const layer::AveragePool& p) const {
    pool(p, 0, [](const Tensor& x, const layer::AveragePool& part) {
      return torch::avg_pool2d(x, part.kernel, part.stride);
    });
  }
  void operator()(const layer::L2Pool& p) const {
    pool(p, 0, [](const Tensor& x, const layer::L2Pool& part) { return model::l2_pool(x, part); });
  }
  void operator()(const layer::LocalContrastNorm& n) const {
    own.windows_ = !n.mean_as_least;
    // At the borders of what it gets others count for more, which is right at those of the image
    // alone: elsewhere there are positions around `out` that make up for it.
    own.compute_ = [n](const model::Tensors& x, const Request& r) {
      return model::cut_samples(model::local_contrast_norm(x[0], n), r.boxes[0], r.out);
    };
  }
  void operator()(const layer::AdaptiveAveragePool& p) const {
    if (own.shapes_[0] == own.output_.shape) {
      own.compute_ = [](const model::Tensors& x, const Request&) { return x[0]; };
      return;
    }
    as(p);
  }
  void operator()(const layer::Subsample& s) const {
    layer::Subsample part = s;
    part.channels = own.output_.size[0];
    as(part);
  }
  void operator()(const layer::Dropout& d) const {
    as(d);
    // One that has all units takes any number of rows of a sample.
    if (!own.output_.whole()) own.module_->as<model::DropoutImpl>()->set_part(own.output_);
  }
  void operator()(const layer::Opaque& o) const {
    if (place.how == model::Division::whole) {
      as(o);
      return;
    }
    const auto part = std::make_shared<const model::UserPart>(
        whole, own.shapes_[0], own.output_.shape, tensors,
        "layer '" + whole.name + "', partition " + std::to_string(partition));
    own.windows_ = own.output_.shape.size() == 3;
    own.module_ = part->module();
    own.compute_ = [part](const model::Tensors& x, const Request& r) {
      return (*part)(x[0], r.boxes[0], r.out, r.pieces);
    };
  }
  // Flatten, activations, sums, concatenations.
  template <class Other>
  void operator()(const Other& other) const {
    as(other);
  }
};

PartLayer::PartLayer(const model::Node& node, const model::PartitionedNode& place,
                     std::vector<model::Shape> shapes, const Slice& output, int partition,
                     std::uint64_t seed)
    : node_(model::as_data(node, output.shape)), shapes_(std::move(shapes)), output_(output) {
  const auto& tensors = place.tensors[static_cast<std::size_t>(partition)];
  const bool divided = place.divides_parameters;
  const std::vector<model::TensorInfo> infos = tensors_of(node);
  // Of layers that each partition holds whole, one that computes nothing has the parameters, too.
  if (!empty() || !divided) {
    Slice all = output_;
    if (empty() && !infos.empty()) all = whole_of(output.tensor, output.shape);
    std::swap(all, output_);
    std::visit(Build{*this, node, place, partition, tensors}, node.kind);
    std::swap(all, output_);
  } else if (std::holds_alternative<layer::Opaque>(node.kind)) {
    module_ = shared_of(node, place);
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (place.divides(i)) parts_[infos[i].name] = tensors[i];
    if (module_ == nullptr || std::holds_alternative<layer::Opaque>(node.kind)) continue;
    const std::string name = infos[i].name.substr(node.name.size() + 1);
    auto held = module_->named_parameters();
    auto buffers = module_->named_buffers();
    fill_part(node, infos[i], tensors[i], seed, infos[i].buffer ? buffers[name] : held[name]);
  }
  // A normalization that is frozen stays so; copies of other modules are as these are.
  if (node.module == nullptr || module_ == nullptr) return;
  if (const bool training = node.module->module.ptr()->is_training();
      !std::holds_alternative<layer::Opaque>(node.kind) && module_->is_training() != training)
    module_->train(training);
}

Tensor PartLayer::compute(const model::Tensors& inputs, const std::vector<Slice>& boxes,
                          const Slice& out, bool in_place, model::GradientInPieces* pieces) const {
  if (out.elements() == 0) return nothing_of(inputs, out.size);
  std::vector<Slice> needed = required(out);
  model::Tensors exact;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (needed[i].elements() == 0) {
      exact.push_back(nothing_of({inputs[i]}, needed[i].size));
      continue;
    }
    needed[i].tensor = boxes[i].tensor;
    model::check_requires_no_more("layer '" + node_.name + "'", out, needed[i], boxes[i]);
    exact.push_back(model::cut_samples(inputs[i], boxes[i], needed[i]));
  }
  return compute_(exact, {needed, out, in_place, pieces});
}

Tensor PartLayer::normalize(const Tensor& input, const Slice& box) const {
  auto& own = *module_->as<torch::nn::BatchNorm2d>();
  // Without the module's check that there are several values: others may have them.
  if (own.is_training()) own.num_batches_tracked += 1;
  // Of images that are divided by position a part without elements has all channels, too.
  const Tensor part =
      empty() ? nothing_of({input}, output_.size) : model::cut_samples(input, box, output_);
  return torch::batch_norm(part, own.weight, own.bias, own.running_mean, own.running_var,
                           own.is_training(), own.options.momentum().value_or(0.1),
                           own.options.eps(), /*cudnn_enabled=*/false);
}

std::vector<Slice> PartLayer::required(const Slice& out) const {
  return required_input(node_, shapes_, out);
}

Slice PartLayer::interior(const Slice& tile) const {
  Slice inside = output_;
  if (!windows_ || empty()) {
    std::fill(inside.size.begin(), inside.size.end(), 0);
    return inside;
  }
  // The longest run of rows that fit: between those of dilated windows there are others.
  std::int64_t longest = 0, run = 0, end = output_.begin[1];
  for (std::int64_t row = output_.begin[1]; row < output_.begin[1] + output_.size[1]; ++row) {
    Slice one = output_;
    one.begin[1] = row;
    one.size[1] = 1;
    Slice needed = required(one)[0];
    needed.tensor = tile.tensor;  // which a stage may call something else
    const auto here = overlap(needed, tile);
    const bool fits = needed.elements() == 0 || (here && here->elements() == needed.elements());
    run = fits ? run + 1 : 0;
    if (run <= longest) continue;
    longest = run;
    end = row + 1;
  }
  inside.begin[1] = end - longest;
  inside.size[1] = longest;
  return inside;
}

}  // namespace convoy::train
