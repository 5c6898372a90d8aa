#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "convoy/base/error.h"
#include "model/blueprint/sizes.h"
#include "model/execution/cut.h"
#include "model/execution/layer_check.h"
#include "model/execution/layer_step.h"
#include "model/execution/torch_error.h"
#include "model/execution/user_part.h"

namespace convoy::model {
namespace {

using torch::Tensor;

constexpr std::int64_t kSamples = 2;
// Of the largest derivative: what is less is rounding.
constexpr double kDerivative = 1e-6;

double largest(const Tensor& values) {
  return values.numel() == 0 ? 0 : values.abs().max().item<double>();
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
  return largest((a - b).masked_fill(same, 0).nan_to_num(INFINITY));
}

double tolerance(const Tensor& values) {
  return values.numel() == 0 ? 0 : tolerance_of(values.nan_to_num(0, 0, 0));
}

// The smallest box of `stated` around what isn't 0 in a gradient of it.
Slice box_of(const Tensor& gradient, const Slice& stated) {
  const Tensor magnitude = gradient.nan_to_num(INFINITY).abs().amax(0);
  const Tensor places = magnitude.gt(kDerivative * largest(gradient.nan_to_num(0, 0, 0))).nonzero();
  Slice box = stated;
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    box.size[d] = 0;
    if (places.size(0) == 0) continue;
    const Tensor along = places.select(1, static_cast<std::int64_t>(d));
    box.begin[d] += along.min().item<std::int64_t>();
    box.size[d] = stated.begin[d] + along.max().item<std::int64_t>() + 1 - box.begin[d];
  }
  return box;
}

class NotChecked : public UsageError {
 public:
  using UsageError::UsageError;
};

// A layer that the plan divides.
class PartsCheck {
 public:
  PartsCheck(const Node& node, const PartitionedNode& place, const PartitionPlan& plan)
      : place_(place),
        tiles_(plan.values[place.output].tiles),
        shapes_{plan.values[place.inputs[0]].shape},
        shape_(plan.values[place.output].shape),
        layer_(node),
        random_(at::detail::createCPUGenerator(1)) {
    // Its own stays as it is.
    layer_.module = std::make_shared<const UserModule>(UserModule{copy_of(node)});
    module_ = layer_.module->module;
    module_.ptr()->eval();
    data_ = as_data(layer_, shape_);
    draw();
  }

  // By partition what it reads of its input.
  std::vector<Slice> run() {
    output_ = compute_whole();
    if (const auto problem = problem_of_output(whole_layer())) complain(data_, *problem);
    weights_ = torch::randn(output_.sizes(), random_, output_.options().requires_grad(false));
    differentiable_ = output_.requires_grad();
    std::vector<Tensor> whole = differentiable_ ? whole_gradients() : std::vector<Tensor>();
    for (const Tensor& gradient : whole) sums_.push_back(torch::zeros_like(gradient));
    output_ = output_.detach();
    std::vector<Slice> read;
    for (std::size_t p = 0; p < tiles_.size(); ++p) {
      read.push_back(place_.required[0][p]);
      if (tiles_[p].elements() > 0) read.back() = check(p);
    }
    for (std::size_t i = 0; i < whole.size(); ++i) compare_gradients(i, whole[i]);
    return read;
  }

 private:
  void draw() {
    torch::TensorOptions options;
    for (Tensor& parameter : module_.ptr()->parameters()) {
      if (!parameter.is_floating_point()) continue;
      options = parameter.options().requires_grad(false);
      // All zeros hide whatever they are multiplied with.
      const torch::NoGradGuard no_grad;
      if (largest(parameter) == 0) parameter.normal_(0, 0.1, random_);
    }
    Shape batch = shapes_[0];
    batch.insert(batch.begin(), kSamples);
    input_ = torch::randn(batch, random_, options).set_requires_grad(true);
  }

  Tensor compute_whole() {
    try {
      return module_.forward(std::as_const(input_));
    } catch (const c10::Error& error) {
      throw NotChecked("layer '" + data_.name +
                       "' can't be checked, since its module can't take values drawn at random. " +
                       text_of(error));
    }
  }

  RunLayer whole_layer() {
    inputs_ = {input_.detach()};
    return {data_, shapes_, inputs_, output_.detach(),
            [this](const Tensors& x) { return module_.forward(x[0]); }};
  }

  // Of the input, then of each tensor.
  std::vector<Tensor> gradients(const Tensor& output, const Tensor& weights, const Tensor& input,
                                const std::vector<Tensor>& tensors) {
    std::vector<Tensor> leaves{input}, all{torch::zeros_like(input)};
    std::vector<std::size_t> places{0};
    for (const Tensor& tensor : tensors) {
      all.push_back(torch::zeros_like(tensor));
      if (!tensor.requires_grad()) continue;
      places.push_back(all.size() - 1);
      leaves.push_back(tensor);
    }
    if (!output.requires_grad()) return all;
    const auto found = torch::autograd::grad({(output * weights).sum()}, leaves, {}, std::nullopt,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].defined()) all[places[i]] = found[i];
    }
    return all;
  }

  std::vector<Tensor> whole_gradients() {
    const auto parameters = module_.ptr()->named_parameters(),
               buffers = module_.ptr()->named_buffers();
    std::vector<Tensor> tensors;
    for (const TensorInfo& info : std::get<layer::Opaque>(data_.kind).tensors)
      tensors.push_back((info.buffer ? buffers : parameters)[info.name]);
    return gradients(output_, weights_, input_, tensors);
  }

  Tensor of_output(const Tensor& batch, const Slice& part) const {
    return cut_samples(batch, whole_of(part.tensor, shape_), part);
  }
  Tensor of_input(const Tensor& batch, const Slice& part) const {
    return cut_samples(batch, whole_of(part.tensor, shapes_[0]), part);
  }

  // Of a partition; gives what it reads.
  Slice check(std::size_t p) {
    const UserPart part(layer_, shapes_[0], shape_, place_.tensors[p],
                        "layer '" + data_.name + "', partition " + std::to_string(p));
    part.module()->eval();
    const Slice &tile = tiles_[p], &stated = place_.required[0][p];
    {
      const torch::NoGradGuard no_grad;
      compare(part, tile, stated);
      for (const Slice& small : parts_to_try(tile)) compare(part, small, stated);
    }
    if (!differentiable_) return stated;
    const Tensor x = of_input(input_.detach(), stated).clone().set_requires_grad(true);
    const Tensor output = part(x, stated, tile);
    const auto found = gradients(output, of_output(weights_, tile), x, part.tensors());
    of_input(sums_[0], stated).add_(found[0]);
    for (std::size_t t = 1; t < found.size(); ++t) {
      const Slice& held = place_.tensors[p][t - 1];
      cut(sums_[t], whole_of(held.tensor, held.shape), held).add_(found[t]);
    }
    return read_by(part, tile, stated, x.detach(), output.detach(), found[0]);
  }

  // `held` is what the partition has of the input.
  void compare(const UserPart& part, const Slice& out, const Slice& held) {
    Slice box = required_input(data_, shapes_, out)[0];
    box.tensor = held.tensor;
    check_requires_no_more("layer '" + data_.name + "'", out, box, held);
    const auto blame_statement = [&] {
      if (const auto problem = problem_of_required(whole_layer(), out)) complain(data_, *problem);
    };
    Tensor got;
    try {
      got = part(of_input(input_, box), box, out);
    } catch (const UsageError&) {
      blame_statement();
      throw;
    }
    const double difference = largest_difference(got, of_output(output_, out));
    if (difference <= tolerance(output_)) return;
    blame_statement();
    complain(data_, "forward_part gives other values for " + out.text() + " from " + box.text() +
                        " than forward does: they differ by up to " + std::to_string(difference));
  }

  // What has a derivative, and what is behind that on a side if changing it changes the output.
  Slice read_by(const UserPart& part, const Slice& tile, const Slice& stated, const Tensor& x,
                const Tensor& output, const Tensor& gradient) {
    const torch::NoGradGuard no_grad;
    Slice read = box_of(gradient, stated);
    const auto matters = [&](const Slice& slab) {
      return std::any_of(std::begin(kDisturbances), std::end(kDisturbances), [&](double change) {
        const Tensor other = x.clone();
        cut_samples(other, stated, slab).add_(change);
        return largest_difference(part(other, stated, tile), output) > tolerance(output);
      });
    };
    for (std::size_t d = 0; d < stated.size.size(); ++d) {
      Slice slab = stated;
      slab.size[d] = read.begin[d] - stated.begin[d];
      if (slab.size[d] > 0 && matters(slab)) {
        read.begin[d] = stated.begin[d];
        read.size[d] += slab.size[d];
      }
      slab.begin[d] = read.begin[d] + read.size[d];
      slab.size[d] = stated.begin[d] + stated.size[d] - slab.begin[d];
      if (slab.size[d] > 0 && matters(slab)) read.size[d] += slab.size[d];
    }
    return read;
  }

  void compare_gradients(std::size_t i, const Tensor& whole) {
    const double difference = largest_difference(sums_[i], whole);
    if (difference <= tolerance(whole)) return;
    const auto& tensors = std::get<layer::Opaque>(data_.kind).tensors;
    complain(data_,
             "forward_part gives " + (i == 0 ? "its input" : "'" + tensors[i - 1].name + "'") +
                 " other gradients than forward does: over all parts together they differ by "
                 "up to " +
                 std::to_string(difference));
  }

  const PartitionedNode& place_;
  const std::vector<Slice>& tiles_;
  std::vector<Shape> shapes_;  // of its input
  Shape shape_;                // of its output
  Node layer_, data_;
  torch::nn::AnyModule module_;
  at::Generator random_;
  Tensor input_, output_, weights_;
  Tensors inputs_;
  bool differentiable_ = true;
  std::vector<Tensor> sums_;  // of gradients
};

double sent(const PartitionPlan& plan, const PartitionedValue& value) {
  double values = 0;
  for (const PartitionTraffic& one : traffic_of({plan.partitions, {value}, {}, {}}))
    values += one.values;
  return values;
}

// Nothing where what it doesn't read is sent for others, or isn't sent.
std::optional<Overstatement> overstatement(const PartitionPlan& plan, const PartitionedNode& place,
                                           const std::vector<Slice>& read) {
  const PartitionedValue& value = plan.values[place.inputs[0]];
  PartitionedValue less = value;
  std::optional<Overstatement> found;
  for (std::size_t p = 0; p < read.size(); ++p) {
    const Slice& stated = place.required[0][p];
    if (!found && read[p].elements() < stated.elements()) {
      const Slice& tile = plan.values[place.output].tiles[p];
      found = Overstatement{tile.tensor, value.name, static_cast<int>(p), tile, stated, read[p]};
    }
    std::fill(less.needed[p].size.begin(), less.needed[p].size.end(), 0);
    for (const PartitionedNode& node : plan.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != place.inputs[0]) continue;
        extend(less.needed[p], &node == &place ? read[p] : node.required[i][p]);
      }
    }
  }
  if (!found) return std::nullopt;
  found->sent = sent(plan, value);
  found->unread = found->sent - sent(plan, less);
  if (found->unread < 0.5 / plan.partitions) return std::nullopt;  // none but rounding
  return found;
}

bool normalizes_anywhere(const UserModule& user) {
  const auto modules = user.module.ptr()->modules();
  return std::any_of(modules.begin(), modules.end(),
                     [](const auto& module) { return normalizes_over_batch(*module); });
}

}  // namespace

std::vector<Overstatement> check_parts(const Blueprint& blueprint, const PartitionPlan& plan,
                                       std::vector<std::string>* not_checked) {
  std::vector<Overstatement> all;
  for (const PartitionedNode& place : plan.nodes) {
    const Node& node = plan.node_of(blueprint, place);
    const auto* opaque = std::get_if<layer::Opaque>(&node.kind);
    if (opaque == nullptr || !opaque->in_parts || place.how == Division::whole) continue;
    if (node.module == nullptr) complain(node, "has no module to be checked");
    if (plan.partitions == 1 && normalizes_anywhere(*node.module)) continue;
    try {
      const auto found = overstatement(plan, place, PartsCheck(node, place, plan).run());
      if (found) all.push_back(*found);
    } catch (const NotChecked& error) {
      if (not_checked == nullptr) throw;
      not_checked->emplace_back(error.what());
    }
  }
  return all;
}

}  // namespace convoy::model
