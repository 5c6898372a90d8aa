// optim::Lars and optim::Lamb, which LibTorch doesn't have: each update of a parameter is scaled by
// norms of all of it, of which ranks may have parts.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "convoy/train/optimizer_rule.h"
#include "train/optimizer/fused_step.h"
#include "train/optimizer/grouped_optimizer.h"
#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

// A parameter, and what is kept of it.
struct Layer {
  std::string name;
  torch::Tensor tensor;
  bool scaled;                       // by its trust ratio
  std::vector<torch::Tensor> slots;  // in the order of optim::slots()
  std::int64_t steps = 0;            // Lamb's
};

// The three phases where rules on plain memory can't: on other devices, and in other types.

// The norms of the weights and the direction, which a device works out without being waited for.
using Norms = std::array<torch::Tensor, 2>;

torch::Tensor norm_of(const torch::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), false, at::kDouble);
}

torch::Tensor direction_of(const optim::Lamb& rule, const Layer& layer) {
  const auto t = static_cast<double>(layer.steps);
  const torch::Tensor root = layer.slots[1].sqrt() / std::sqrt(1 - std::pow(rule.beta2, t));
  return layer.slots[0] / (1 - std::pow(rule.beta1, t)) / (root + rule.eps) +
         layer.tensor * rule.weight_decay;
}

Norms accumulate(const optim::Rule& rule, Layer& layer) {
  for (torch::Tensor& slot : layer.slots) {
    if (!slot.defined()) slot = torch::zeros_like(layer.tensor, {}, torch::MemoryFormat::Preserve);
  }
  const torch::Tensor& gradient = layer.tensor.grad();
  const auto* lamb = std::get_if<optim::Lamb>(&rule);
  if (lamb == nullptr) return {norm_of(layer.tensor), norm_of(gradient)};
  layer.slots[0].mul_(lamb->beta1).add_(gradient, 1 - lamb->beta1);
  layer.slots[1].mul_(lamb->beta2).addcmul_(gradient, gradient, 1 - lamb->beta2);
  return {norm_of(layer.tensor), norm_of(direction_of(*lamb, layer))};
}

void apply(const optim::Rule& rule, double ratio, Layer& layer) {
  const double rate = optim::learning_rate(rule) * ratio;
  if (const auto* lamb = std::get_if<optim::Lamb>(&rule)) {
    layer.tensor.sub_(direction_of(*lamb, layer), rate);
    return;
  }
  const auto& lars = std::get<optim::Lars>(rule);
  const torch::Tensor d = layer.tensor.grad() + layer.tensor * lars.weight_decay;
  layer.slots[0].mul_(lars.momentum).sub_(d, rate);
  layer.tensor.add_(layer.slots[0]);
}

// A plugin's optimizer of such a rule need not have the key.
std::int64_t trust_min_dims(const OptimizerRecipe& values) {
  const Options keys = with_defaults(values).options;
  return has_trust_min_dims(keys) ? keys.integer(kTrustMinDims) : kUsualTrustMinDims;
}

class LayerwiseOptimizer final : public GroupedOptimizer {
 public:
  explicit LayerwiseOptimizer(const ParameterGroups& groups) {
    for (const ParameterGroup& group : groups) {
      Group& own = groups_.emplace_back();
      own.rule = optimizer_rule(group.values);
      const std::int64_t scaled_dims = trust_min_dims(group.values);
      for (const auto& parameter : group.parameters) {
        own.layers.push_back(layers_.size());
        of_[parameter.tensor.unsafeGetTensorImpl()] = layers_.size();
        layers_.push_back({parameter.name, parameter.tensor, parameter.tensor.dim() >= scaled_dims,
                           std::vector<torch::Tensor>(optim::slots(own.rule).size())});
      }
    }
  }

  bool layerwise() const override { return true; }
  void set_divided(std::vector<std::string> names, Sum sum) override {
    divided_ = std::move(names);
    sum_ = std::move(sum);
  }
  void set_learning_rate(std::size_t group, double lr) override {
    optim::set_learning_rate(groups_[group].rule, lr);
  }
  void set_weight_decay(std::size_t group, double decay) override {
    if (auto* lars = std::get_if<optim::Lars>(&groups_[group].rule)) lars->weight_decay = decay;
    if (auto* lamb = std::get_if<optim::Lamb>(&groups_[group].rule)) lamb->weight_decay = decay;
  }
  void zero_grad() override {
    for (const Layer& layer : layers_) layer.tensor.mutable_grad().reset();
  }

  void step() override {
    const torch::NoGradGuard no_grad;
    FusedStep fused;
    std::vector<Update> updates, others;
    for (const Group& group : groups_) {
      for (const std::size_t index : group.layers) {
        Layer& layer = layers_[index];
        if (!layer.tensor.grad().defined()) continue;
        ++layer.steps;
        const bool plain = can_fuse(layer.tensor);
        (plain ? updates : others).push_back({&group.rule, &layer, {}});
        if (plain) fused.add(group.rule, layer.steps, layer.tensor, pointers(layer));
      }
    }
    const std::vector<optim::Squares> squares = fused.accumulate();
    for (std::size_t i = 0; i < squares.size(); ++i) updates[i].squares = squares[i];
    accumulate_others(others);
    add_up(updates, others);
    std::vector<double> ratios;
    for (const Update& update : updates) ratios.push_back(ratio_of(update));
    fused.run(ratios);
    for (const Update& update : others) apply(*update.rule, ratio_of(update), *update.layer);
  }

  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names;
    for (const optim::Slot& slot : optim::slots(groups_.front().rule))
      names.emplace_back(slot.name);
    return names;
  }
  std::vector<torch::Tensor*> slots(const torch::Tensor& parameter, bool make) override {
    Layer& layer = of(parameter);
    const bool has = layer.slots.front().defined();
    return has || make ? pointers(layer) : std::vector<torch::Tensor*>{};
  }
  // Lars counts none.
  std::int64_t steps(const torch::Tensor& parameter) override {
    return counts() ? of(parameter).steps : 0;
  }
  void set_steps(const torch::Tensor& parameter, std::int64_t steps) override {
    if (counts()) of(parameter).steps = steps;
  }

 private:
  struct Group {
    optim::Rule rule;
    std::vector<std::size_t> layers;
  };
  struct Update {
    const optim::Rule* rule;
    Layer* layer;
    optim::Squares squares;
  };

  static std::vector<torch::Tensor*> pointers(Layer& layer) {
    std::vector<torch::Tensor*> slots;
    for (torch::Tensor& slot : layer.slots) slots.push_back(&slot);
    return slots;
  }
  // One wait for the device, whatever the number of parameters.
  static void accumulate_others(std::vector<Update>& others) {
    if (others.empty()) return;
    std::vector<torch::Tensor> norms;
    for (Update& update : others) {
      const Norms own = accumulate(*update.rule, *update.layer);
      norms.insert(norms.end(), own.begin(), own.end());
    }
    const torch::Tensor squares = at::stack(norms).square().to(torch::kCPU);
    const auto* next = squares.const_data_ptr<double>();
    for (Update& update : others) {
      update.squares = {next[0], next[1]};
      next += 2;
    }
  }
  static double ratio_of(const Update& update) {
    return update.layer->scaled ? optim::trust_ratio(*update.rule, update.squares) : 1;
  }

  Layer& of(const torch::Tensor& parameter) {
    return layers_[of_.at(parameter.unsafeGetTensorImpl())];
  }
  bool counts() const { return std::holds_alternative<optim::Lamb>(groups_.front().rule); }

  // One sum for all divided parameters; ranks without a part, or without a gradient for it, add
  // nothing to theirs.
  void add_up(std::vector<Update>& updates, std::vector<Update>& others) const {
    if (divided_.empty()) return;
    std::vector<optim::Squares> sums(divided_.size());
    std::vector<std::pair<Update*, std::size_t>> places;
    for (std::vector<Update>* list : {&updates, &others}) {
      for (Update& update : *list) {
        const auto found = std::lower_bound(divided_.begin(), divided_.end(), update.layer->name);
        if (found == divided_.end() || *found != update.layer->name) continue;
        const auto place = static_cast<std::size_t>(found - divided_.begin());
        sums[place] += update.squares;
        places.emplace_back(&update, place);
      }
    }
    sum_(sums);
    for (const auto& [update, place] : places) update->squares = sums[place];
  }

  std::vector<Group> groups_;
  std::vector<Layer> layers_;
  std::map<const void*, std::size_t> of_;
  std::vector<std::string> divided_;  // ascending
  Sum sum_;
};

}  // namespace

std::unique_ptr<GroupedOptimizer> make_layerwise_optimizer(const ParameterGroups& groups) {
  return std::make_unique<LayerwiseOptimizer>(groups);
}

}  // namespace convoy::train
