#include "convoy/model/stage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/randomness.h"
#include "model/execution/layer_step.h"
#include "model/execution/module_tree.h"

namespace convoy::model {
namespace {

// Elements that one thread fills at a time.
constexpr std::int64_t kGrain = 1 << 15;

void fill_tensor(torch::Tensor tensor, const TensorInfo& info, std::uint64_t seed) {
  if (info.first.rule == FirstValues::Rule::as_made) return;
  const bool direct =
      tensor.scalar_type() == torch::kFloat && tensor.is_cpu() && tensor.is_contiguous();
  torch::Tensor values = direct ? tensor : torch::empty(tensor.sizes(), torch::kFloat);
  auto* const data = static_cast<float*>(values.mutable_data_ptr());
  at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    fill(info.name, info.first, seed, begin, std::span(data + begin, data + end));
  });
  if (!direct) tensor.copy_(values);
}

template <class Dict>
torch::Tensor found(const Dict& tensors, const std::string& name) {
  const auto* tensor = tensors.find(name);
  if (tensor == nullptr) throw UsageError("there is no parameter or buffer '" + name + "'");
  return *tensor;
}

}  // namespace

struct Stage::Step : LayerStep {
  std::vector<std::size_t> inputs;  // places of values
  std::vector<std::size_t> last;    // of them, those that nobody reads afterwards
  bool in_place = false;
  bool auxiliary = false;  // for auxiliary outputs alone
};

Stage::~Stage() = default;

Stage::Stage(StageSpec spec, std::uint64_t seed) : Stage(std::move(spec), UserModules::copied) {
  initialize(*this, seed);
}

Stage::Stage(StageSpec spec, UserModules modules)
    : torch::nn::Module("Stage"), spec_(std::move(spec)) {
  check(spec_);
  std::map<std::string, std::size_t> places;
  for (const std::string& input : spec_.inputs) places.emplace(input, places.size());
  std::vector<std::size_t> last_reader(spec_.inputs.size() + spec_.nodes.size(), 0);
  for (std::size_t i = 0; i < spec_.nodes.size(); ++i) {
    const Node& node = spec_.nodes[i];
    Step step{
        make_layer_step(node, modules == UserModules::copied), {}, {}, in_place(spec_, i), false};
    for (const std::string& input : node.inputs) {
      step.inputs.push_back(places.at(input));
      last_reader[step.inputs.back()] = i;
    }
    places.emplace(node.name, places.size());
    if (step.module != nullptr) register_under(*this, node.name, step.module);
    steps_.push_back(std::move(step));
  }
  for (const std::string& output : spec_.outputs) {
    outputs_.push_back(places.at(output));
    last_reader[outputs_.back()] = spec_.nodes.size();  // for whoever comes next
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const std::size_t place : steps_[i].inputs) {
      if (last_reader[place] == i) steps_[i].last.push_back(place);
    }
  }
}

Tensors Stage::forward(Tensors inputs) { return compute(std::move(inputs), /*auxiliary=*/true); }

Tensors Stage::compute(Tensors values, bool auxiliary) {
  if (values.size() != spec_.inputs.size()) {
    throw UsageError("stage '" + spec_.name + "' takes " + std::to_string(spec_.inputs.size()) +
                     " tensors, not " + std::to_string(values.size()));
  }
  Tensors arguments;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    arguments.clear();
    for (const std::size_t place : step.inputs) arguments.push_back(values[place]);
    for (const std::size_t place : step.last) values[place] = torch::Tensor();
    const bool wanted = auxiliary || !step.auxiliary;
    if (observer_) observer_(spec_.nodes[i], true);
    values.push_back(wanted ? step.compute(arguments, step.in_place) : torch::Tensor());
    if (observer_) observer_(spec_.nodes[i], false);
  }
  Tensors outputs;
  for (const std::size_t place : outputs_) outputs.push_back(values[place]);
  return outputs;
}

torch::Tensor Stage::run(std::size_t node, const Tensors& inputs) {
  return steps_.at(node).compute(inputs, /*in_place=*/false);
}

StagedNetwork::StagedNetwork(Blueprint blueprint, std::uint64_t seed)
    : StagedNetwork(std::move(blueprint), Stage::UserModules::copied) {
  initialize(*this, seed);
}

StagedNetwork::StagedNetwork(Blueprint blueprint, Stage::UserModules modules)
    : Network(blueprint.name), blueprint_(std::move(blueprint)) {
  check(blueprint_);
  if (modules == Stage::UserModules::copied) check_apart(blueprint_);
  const auto shapes = shapes_of(blueprint_, blueprint_.inputs);
  const Shape& scores = shapes.back().outputs.front();
  classes_ = scores.empty() ? 1 : scores.back();
  const auto auxiliary = auxiliary_layers(blueprint_);
  for (const StageSpec& spec : blueprint_.stages) {
    stages_.push_back(std::shared_ptr<Stage>(new Stage(spec, modules)));
    for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
      stages_.back()->steps_[i].auxiliary = auxiliary[stages_.size() - 1][i];
      const auto& module = stages_.back()->steps_[i].module;
      if (module != nullptr) register_under(*this, spec.nodes[i].name, module);
    }
  }
}

torch::Tensor StagedNetwork::forward(torch::Tensor images) {
  return run({std::move(images)}).front();
}

Tensors StagedNetwork::run(const Tensors& inputs) {
  Tensors values = inputs;
  for (const auto& stage : stages_) values = stage->compute(std::move(values), is_training());
  if (!is_training()) values.resize(values.size() - blueprint_.auxiliary.size());
  return values;
}

std::array<std::int64_t, 3> StagedNetwork::image_shape() const {
  const Shape& shape = blueprint_.inputs.front();
  if (shape.size() != 3) {
    throw UsageError("the network '" + blueprint_.name + "' takes no images, but " +
                     text_of(shape));
  }
  return {shape[0], shape[1], shape[2]};
}

void initialize(Stage& stage, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto parameters = stage.named_parameters(), buffers = stage.named_buffers();
  for (const Node& node : stage.spec().nodes) {
    if (node.module != nullptr) continue;
    for (const TensorInfo& info : tensors_of(node))
      fill_tensor(found(info.buffer ? buffers : parameters, info.name), info, seed);
  }
}

void initialize(StagedNetwork& network, std::uint64_t seed) {
  for (const auto& stage : network.stages()) initialize(*stage, seed);
}

}  // namespace convoy::model
