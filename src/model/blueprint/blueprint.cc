#include "convoy/model/blueprint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "model/blueprint/sizes.h"

namespace convoy::model {
namespace {

[[noreturn]] void complain(const StageSpec& stage, const std::string& what) {
  throw UsageError("stage '" + stage.name + "': " + what);
}

// Calls `work`, and puts the stage before what it complains about.
template <class Work>
auto in_stage(const StageSpec& stage, Work&& work) {
  try {
    return work();
  } catch (const UsageError& error) {
    throw UsageError("stage '" + stage.name + "', " + error.what());
  }
}

bool is_path(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         name.find("..") == std::string::npos;
}

// Whether it needs no name, if its stage is the only one.
bool is_alone(const StageSpec& stage, const Node& node) {
  return node.name.empty() && stage.nodes.size() == 1 &&
         std::holds_alternative<layer::Opaque>(node.kind);
}

std::string sorry(const Node& node, const std::string& what) {
  return "layer '" + node.name + "' " + what;
}

void check_nodes(const StageSpec& stage) {
  std::set<std::string> known(stage.inputs.begin(), stage.inputs.end());
  if (known.size() != stage.inputs.size()) complain(stage, "two of its inputs have one name");
  std::set<std::string> read(stage.outputs.begin(), stage.outputs.end());
  for (const Node& node : stage.nodes) {
    if (!is_path(node.name) && !is_alone(stage, node))
      complain(stage, "'" + node.name + "' can't be a layer's name");
    for (const std::string& input : node.inputs) {
      if (!known.contains(input)) {
        complain(stage, sorry(node, "reads '" + input +
                                        "', which is no input of the stage and no layer before"));
      }
      read.insert(input);
    }
    if (!known.insert(node.name).second)
      complain(stage, sorry(node, "has a name that is taken already"));
  }
  for (const std::string& output : stage.outputs) {
    if (!known.contains(output)) complain(stage, "has no layer '" + output + "' to put out");
  }
  for (const Node& node : stage.nodes) {
    if (!read.contains(node.name)) complain(stage, sorry(node, "gives what nobody reads"));
  }
}

// Whether `inner` would be a child of the module `outer`.
bool lies_in_module(const std::string& inner, const std::string& outer) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

void check_names(const std::vector<const StageSpec*>& stages) {
  std::map<std::string, const StageSpec*> names;
  for (const StageSpec* stage : stages) {
    for (const Node& node : stage->nodes) {
      const auto [other, added] = names.emplace(node.name, stage);
      if (!added) {
        complain(*stage, sorry(node, "has the name of one in stage '" + other->second->name + "'"));
      }
    }
  }
  for (auto outer = names.begin(); outer != names.end(); ++outer) {
    // Names that begin with this one and a dot follow it, if with others between.
    const auto inner = names.lower_bound(outer->first + ".");
    if (inner != names.end() && lies_in_module(inner->first, outer->first)) {
      complain(*inner->second, "layer '" + inner->first + "' lies in another one, '" +
                                   outer->first + "'; name one of them otherwise");
    }
  }
}

void check_count(const StageSpec& stage, std::size_t passed, const std::string& by) {
  if (stage.inputs.size() == passed) return;
  complain(stage, "takes " + std::to_string(stage.inputs.size()) + " tensors, " + by + " passes " +
                      std::to_string(passed));
}

void check_auxiliary(const Blueprint& blueprint) {
  if (blueprint.auxiliary.empty()) return;
  const StageSpec& last = blueprint.stages.back();
  if (last.outputs.size() != 1 + blueprint.auxiliary.size()) {
    complain(last, "puts out " + std::to_string(last.outputs.size()) +
                       " tensors; with the weights of " +
                       std::to_string(blueprint.auxiliary.size()) +
                       " auxiliary ones these have to be the scores and as many more");
  }
  for (const double weight : blueprint.auxiliary) {
    if (std::isfinite(weight) && weight > 0) continue;
    throw UsageError("the network '" + blueprint.name + "': auxiliary outputs have weights of " +
                     std::to_string(weight) + "; they have to be finite and above 0");
  }
}

}  // namespace

void check(const StageSpec& stage) {
  if (stage.name.empty()) throw UsageError("a stage has no name");
  if (stage.inputs.empty()) complain(stage, "takes no tensor");
  if (stage.outputs.empty()) complain(stage, "puts out no tensor");
  check_nodes(stage);
  check_names({&stage});
  for (const Node& node : stage.nodes) in_stage(stage, [&] { return tensors_of(node); });
}

void check(const Blueprint& blueprint) {
  if (blueprint.stages.empty())
    throw UsageError("the network '" + blueprint.name + "' has no stage");
  std::set<std::string> names;
  std::vector<const StageSpec*> stages;
  for (const StageSpec& stage : blueprint.stages) {
    check(stage);
    if (blueprint.stages.size() > 1 && !stage.nodes.empty() && stage.nodes.front().name.empty())
      complain(stage, "its layer needs a name, since there are other stages");
    if (!names.insert(stage.name).second) complain(stage, "there are two of this name");
    if (stages.empty()) {
      check_count(stage, blueprint.inputs.size(), "the network");
    } else {
      check_count(stage, stages.back()->outputs.size(), "stage '" + stages.back()->name + "'");
    }
    stages.push_back(&stage);
  }
  check_names(stages);
  check_auxiliary(blueprint);
}

std::vector<std::vector<bool>> auxiliary_layers(const Blueprint& blueprint) {
  std::vector<std::vector<bool>> all(blueprint.stages.size());
  std::vector<bool> wanted;  // of what the stage puts out
  for (std::size_t s = all.size(); s-- > 0;) {
    const StageSpec& stage = blueprint.stages[s];
    if (wanted.empty()) {
      wanted.assign(stage.outputs.size(), true);
      std::fill(wanted.end() - static_cast<std::ptrdiff_t>(blueprint.auxiliary.size()),
                wanted.end(), false);
    }
    std::set<std::string> needed;
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
      if (wanted[i]) needed.insert(stage.outputs[i]);
    }
    all[s].assign(stage.nodes.size(), false);
    for (std::size_t i = stage.nodes.size(); i-- > 0;) {
      const Node& node = stage.nodes[i];
      all[s][i] = !needed.contains(node.name);
      if (!all[s][i]) needed.insert(node.inputs.begin(), node.inputs.end());
    }
    wanted.clear();
    for (const std::string& input : stage.inputs) wanted.push_back(needed.contains(input));
  }
  return all;
}

Blueprint some_stages(const Blueprint& whole, std::size_t first, std::size_t count) {
  const std::size_t stages = whole.stages.size();
  if (count == 0 || first >= stages || count > stages - first) {
    throw UsageError("the network '" + whole.name + "' has " + std::to_string(stages) +
                     " stages: there are no " + std::to_string(count) + " from number " +
                     std::to_string(first) + " on");
  }
  const auto begin = whole.stages.begin() + static_cast<std::ptrdiff_t>(first);
  Blueprint some{whole.name,
                 shapes_of(whole, whole.inputs)[first].inputs,
                 {begin, begin + static_cast<std::ptrdiff_t>(count)}};
  if (first + count == stages) some.auxiliary = whole.auxiliary;
  return some;
}

StageShapes shapes_of(const StageSpec& stage, const std::vector<Shape>& inputs) {
  check_count(stage, inputs.size(), "what comes before");
  std::map<std::string, Shape> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[stage.inputs[i]] = inputs[i];
  StageShapes shapes{inputs, {}, {}};
  for (const Node& node : stage.nodes) {
    LayerShapes own;
    for (const std::string& input : node.inputs) own.inputs.push_back(values.at(input));
    own.output = in_stage(stage, [&] { return output_shape(node, own.inputs); });
    values[node.name] = own.output;
    shapes.layers.push_back(std::move(own));
  }
  for (const std::string& output : stage.outputs) shapes.outputs.push_back(values.at(output));
  return shapes;
}

std::vector<StageShapes> shapes_of(const Blueprint& blueprint, const std::vector<Shape>& inputs) {
  std::vector<StageShapes> all;
  std::vector<Shape> passed = inputs;
  for (const StageSpec& stage : blueprint.stages) {
    all.push_back(shapes_of(stage, passed));
    passed = all.back().outputs;
  }
  return all;
}

namespace {

void add_need(std::map<std::string, Slice>& needed, const Slice& part) {
  if (part.elements() == 0) return;
  const auto [place, added] = needed.emplace(part.tensor, part);
  if (!added) extend(place->second, part);
}

}  // namespace

std::vector<Slice> required_input(const StageSpec& stage, const StageShapes& shapes,
                                  const std::vector<Slice>& outputs) {
  if (outputs.size() != stage.outputs.size()) {
    complain(stage, "has " + std::to_string(stage.outputs.size()) + " outputs, not " +
                        std::to_string(outputs.size()));
  }
  std::map<std::string, Slice> needed;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Slice part = outputs[i];
    part.tensor = stage.outputs[i];
    add_need(needed, part);
  }
  for (std::size_t i = stage.nodes.size(); i-- > 0;) {
    const Node& node = stage.nodes[i];
    const auto own = needed.find(node.name);
    if (own == needed.end()) continue;
    for (const Slice& part : in_stage(
             stage, [&] { return required_input(node, shapes.layers[i].inputs, own->second); }))
      add_need(needed, part);
  }
  std::vector<Slice> parts;
  for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
    const auto own = needed.find(stage.inputs[i]);
    parts.push_back(whole_of(stage.inputs[i], shapes.inputs[i]));
    if (own != needed.end()) {
      parts.back() = own->second;
    } else {
      std::fill(parts.back().size.begin(), parts.back().size.end(), 0);
    }
  }
  return parts;
}

bool in_place(const StageSpec& stage, std::size_t index) {
  const Node& node = stage.nodes[index];
  const bool may = std::holds_alternative<layer::Relu>(node.kind) ||
                   std::holds_alternative<layer::Relu6>(node.kind) ||
                   std::holds_alternative<layer::Sigmoid>(node.kind) ||
                   std::holds_alternative<layer::Add>(node.kind);
  if (!may || node.inputs.empty()) return false;
  const std::string& input = node.inputs[0];
  auto readers = std::count(stage.outputs.begin(), stage.outputs.end(), input);
  for (const Node& other : stage.nodes)
    readers += std::count(other.inputs.begin(), other.inputs.end(), input);
  if (readers != 1) return false;
  for (const Node& other : stage.nodes) {
    if (other.name != input) continue;
    return std::holds_alternative<layer::Convolution>(other.kind) ||
           std::holds_alternative<layer::LocallyConnected>(other.kind) ||
           std::holds_alternative<layer::Linear>(other.kind) ||
           std::holds_alternative<layer::BatchNorm>(other.kind) ||
           std::holds_alternative<layer::Add>(other.kind);
  }
  return false;  // an input of the stage, which is somebody else's
}

std::int64_t activation_bytes(const StageSpec& stage, std::size_t node, const LayerShapes& shapes,
                              std::size_t element) {
  if (std::holds_alternative<layer::Flatten>(stage.nodes[node].kind) || in_place(stage, node))
    return 0;
  // These compute in float32 at least.
  const layer::Kind& kind = stage.nodes[node].kind;
  if (std::holds_alternative<layer::L2Pool>(kind) ||
      std::holds_alternative<layer::LocalContrastNorm>(kind))
    element = std::max<std::size_t>(element, 4);
  return elements_of(shapes.output) * static_cast<std::int64_t>(element);
}

Cost cost_of(const StageSpec& stage, std::size_t node, const LayerShapes& shapes) {
  Cost cost;
  for (const TensorInfo& tensor : tensors_of(stage.nodes[node])) {
    if (!tensor.buffer) cost.parameters += elements_of(tensor.shape);
  }
  cost.macs = macs(stage.nodes[node], shapes.inputs);
  cost.activation_bytes = activation_bytes(stage, node, shapes);
  return cost;
}

Cost cost_of(const Blueprint& blueprint, const std::vector<Shape>& inputs) {
  Cost total;
  const auto shapes = shapes_of(blueprint, inputs);
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    for (std::size_t i = 0; i < shapes[s].layers.size(); ++i) {
      const Cost own = cost_of(blueprint.stages[s], i, shapes[s].layers[i]);
      total.parameters += own.parameters;
      total.macs += own.macs;
      total.activation_bytes += own.activation_bytes;
    }
  }
  return total;
}

}  // namespace convoy::model
