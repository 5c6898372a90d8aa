// Sizes of a network, for the planner.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "convoy/base/error.h"
#include "convoy/base/parts.h"
#include "convoy/base/units.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/placement.h"
#include "convoy/train/planning.h"
#include "train/optimizer/grouped_optimizer.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {
namespace {

using model::Node;
namespace layer = model::layer;

// From here on a gradient is computed in its bucket (GradientReducer).
constexpr double kComputedInPlace = 1 << 20;

bool reads_all_units(const Node& node) {
  return std::holds_alternative<layer::Convolution>(node.kind) ||
         std::holds_alternative<layer::LocallyConnected>(node.kind) ||
         std::holds_alternative<layer::LocalContrastNorm>(node.kind) ||
         std::holds_alternative<layer::Linear>(node.kind) ||
         std::holds_alternative<layer::Opaque>(node.kind);
}

// Channels, or what else is computed for itself.
std::int64_t units_of_layer(const Node& node, const model::LayerShapes& shapes) {
  if (std::holds_alternative<layer::Opaque>(node.kind)) return 0;
  if (const auto* convolution = std::get_if<layer::Convolution>(&node.kind))
    return convolution->groups == 1 ? convolution->out : 0;
  const bool flat = std::holds_alternative<layer::Flatten>(node.kind);
  const model::Shape& shape = flat ? shapes.inputs.front() : shapes.output;
  if (shape.empty()) return 0;
  return std::holds_alternative<layer::Linear>(node.kind) ? shape.back() : shape.front();
}

class Sizes {
 public:
  explicit Sizes(const PlacementProblem& problem)
      : problem_(problem), shapes_(shapes_of(problem.network, problem.inputs)) {}

  plan::TrainingCost cost();

 private:
  void add_layers();
  void note_readers();
  void join_head(const PartitionedNames& divided);
  plan::LayerCost layer_cost(std::size_t stage, std::size_t node) const;

  const PlacementProblem& problem_;
  std::vector<model::StageShapes> shapes_;
  plan::TrainingCost cost_;
};

plan::LayerCost Sizes::layer_cost(std::size_t stage, std::size_t node) const {
  const model::StageSpec& spec = problem_.network.stages[stage];
  const model::LayerShapes& shapes = shapes_[stage].layers[node];
  const Recipe& recipe = problem_.recipe;
  const double element = recipe.precision == "float64" ? 8 : 4;  // of a parameter
  const double value = recipe.precision == "bfloat16" ? 2 : element;
  plan::LayerCost cost;
  cost.name = spec.nodes[node].name;
  cost.units = units_of_layer(spec.nodes[node], shapes);
  cost.output_values = static_cast<double>(model::elements_of(shapes.output));
  cost.activation_bytes = static_cast<double>(
      model::activation_bytes(spec, node, shapes, static_cast<std::size_t>(value)));
  for (const model::TensorInfo& tensor : tensors_of(spec.nodes[node])) {
    if (tensor.buffer) continue;
    const double bytes = element * static_cast<double>(model::elements_of(tensor.shape));
    const bool in_place =
        tensor.shape.size() == 2 && bytes >= kComputedInPlace && recipe.device == "cpu";
    cost.gradients.push_back({bytes, in_place});
  }
  return cost;
}

void Sizes::add_layers() {
  for (std::size_t s = 0; s < problem_.network.stages.size(); ++s) {
    for (std::size_t n = 0; n < problem_.network.stages[s].nodes.size(); ++n)
      cost_.layers.push_back(layer_cost(s, n));
  }
  cost_.layers.back().gathered = true;  // the loss needs all scores
}

// Who reads all units of what.
void Sizes::note_readers() {
  // By the stage before: names of layers, or of inputs, which have none.
  std::vector<std::string> passed(problem_.inputs.size());
  std::set<std::string> gathered;
  for (const model::StageSpec& stage : problem_.network.stages) {
    std::map<std::string, std::string> layers;  // that a name in this stage means
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) layers[stage.inputs[i]] = passed.at(i);
    for (const Node& node : stage.nodes) {
      layers[node.name] = node.name;
      if (!reads_all_units(node)) continue;
      for (const std::string& input : node.inputs) gathered.insert(layers.at(input));
    }
    passed.clear();
    for (const std::string& output : stage.outputs) passed.push_back(layers.at(output));
  }
  for (plan::LayerCost& layer : cost_.layers)
    layer.gathered = layer.gathered || gathered.contains(layer.name);
}

// Nothing where they are even.
std::vector<std::int64_t> units_of_parts(const plan::LayerCost& layer,
                                         const std::vector<double>& parts) {
  std::vector<std::int64_t> units;
  const int ranks = static_cast<int>(parts.size());
  for (int rank = 0; rank < ranks; ++rank)
    units.push_back(units_of(layer.units, parts, rank, ranks).size);
  return units;
}

// Each divided layer with what follows it.
void Sizes::join_head(const PartitionedNames& divided) {
  std::vector<plan::LayerCost> layers;
  std::size_t next = 0;
  const auto starts = [&](const plan::LayerCost& layer) {
    return next < divided.layers.size() && layer.name == divided.layers[next];
  };
  for (plan::LayerCost& layer : cost_.layers) {
    if (starts(layer)) {
      if (next == 0) cost_.head = layers.size();
      layer.gathered = true;
      layer.parts = units_of_parts(layer, divided.parts[next++]);
      layers.push_back(std::move(layer));
    } else if (next == 0) {
      layers.push_back(std::move(layer));
    } else {
      layers.back().activation_bytes += layer.activation_bytes;
    }
  }
  cost_.boundary_values = static_cast<double>(divided.inputs);
  cost_.numbers_sent = divided.drop_units;
  cost_.layers = std::move(layers);
}

double values_kept(const PlacementProblem& problem) {
  const OptimizerRecipe& recipe = problem.recipe.optimizer;
  if (problem.optimizer)
    return static_cast<double>(make_update_rule(recipe, problem.optimizer)->slots().size());
  return static_cast<double>(optim::slots(optimizer_rule(recipe)).size());
}

plan::TrainingCost Sizes::cost() {
  add_layers();
  note_readers();
  cost_.head = cost_.layers.size();
  // A rule that fits no layer is a mistake, not a network that can't be divided.
  place_layers(problem_.recipe.placement, problem_.network);
  try {
    join_head(partitioned_layers(problem_.network, problem_.inputs, problem_.recipe.placement));
  } catch (const UsageError&) {
    // Hybrid can't have it.
  }
  const Recipe& recipe = problem_.recipe;
  cost_.optimizer_values = values_kept(problem_);
  if (recipe.precision == "bfloat16") cost_.value_bytes = 2;
  cost_.sums_converted = recipe.precision == "bfloat16";
  cost_.late_gradients = recipe.precision != "bfloat16" && recipe.device == "cpu";
  if (recipe.precision == "float64") cost_.value_bytes = 8;
  const Options& keys = recipe.strategy_options;
  if (keys.has("bucket")) {
    cost_.bucket_bytes = static_cast<double>(parse_bytes(keys.text("bucket")));
    cost_.first_bucket_bytes = static_cast<double>(parse_bytes(keys.text("first_bucket")));
    if (keys.text("wire") == "bfloat16" && recipe.precision != "float64") cost_.sent_part = 0.5;
    // Buckets of another type are not computed in.
    if (!keys.flag("compute_in_buckets") || cost_.sent_part < 1) {
      for (plan::LayerCost& layer : cost_.layers)
        for (plan::GradientSize& gradient : layer.gradients) gradient.in_place = false;
    }
  }
  return cost_;
}

}  // namespace

plan::TrainingCost training_cost(const PlacementProblem& problem) { return Sizes(problem).cost(); }

}  // namespace convoy::train
