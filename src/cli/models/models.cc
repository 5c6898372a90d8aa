// convoy models: what networks are made of, and what they cost.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/checks.h"
#include "cli/counts.h"
#include "cli/plan/network.h"
#include "cli/rows.h"
#include "cli/torch_commands.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/model/factory.h"
#include "convoy/train/threads.h"
#include "train/planning/network_time.h"

namespace convoy::cli {
namespace {

struct ModelsArguments {
  std::vector<std::string> models;     // names of networks, and files of recipes
  std::vector<std::string> overrides;  // --set, of recipes
  std::int64_t size = 0;
  std::int64_t classes = 0;
  bool layers = false;
  bool time = false;
  std::int64_t batch = 8;
  int repetitions = 5;
  std::string json;
};

constexpr std::int64_t kFloat = 4;  // bytes

// A network with what follows from it.
struct Network {
  std::string name;
  model::Blueprint blueprint;
  std::vector<model::StageShapes> shapes;
  model::Cost cost;
  int threads = 0;          // with --time
  train::NetworkTime time;  // the same

  std::size_t layers() const {
    std::size_t count = 0;
    for (const model::StageSpec& stage : blueprint.stages) count += stage.nodes.size();
    return count;
  }
};

// Of a recipe, with its plugins and its data.
Network look_at_recipe(const std::string& path, const ModelsArguments& arguments) {
  if (arguments.size > 0 || arguments.classes > 0) {
    throw UsageError(std::string(arguments.size > 0 ? "--size" : "--classes") +
                     " is for networks by their names; " + path +
                     " has data.size, model.classes and data: --set KEY=VALUE gives them others");
  }
  train::Registry registry;
  const train::RecipeText text = train::read_recipe_file(path);
  registry.load_plugins(train::plugins_of(text, arguments.overrides));
  const train::Recipe recipe =
      train::parse_recipe(text, arguments.overrides, registry.vocabulary());
  SeenNetwork seen = see_network(recipe, registry);
  Network network{recipe.model.name, std::move(seen.network), {}, {}, 0, {}};
  network.blueprint.inputs = std::move(seen.inputs);
  network.shapes = model::shapes_of(network.blueprint, network.blueprint.inputs);
  network.cost = model::cost_of(network.blueprint, network.blueprint.inputs);
  return network;
}

Network look_at(const std::string& name, const ModelsArguments& arguments) {
  if (is_recipe_file(name)) return look_at_recipe(name, arguments);
  Network network{name, {}, {}, {}, 0, {}};
  const model::ModelOptions options{.classes = arguments.classes};
  network.blueprint = model::make_blueprint(name, options);
  try {
    if (arguments.size > 0)
      network.blueprint = model::make_blueprint(name, options, arguments.size);
    network.shapes = model::shapes_of(network.blueprint, network.blueprint.inputs);
  } catch (const UsageError& error) {
    throw UsageError("model '" + name + "' can't take images of --size " +
                     std::to_string(arguments.size) + ": " + error.what());
  }
  network.cost = model::cost_of(network.blueprint, network.blueprint.inputs);
  return network;
}

void measure(Network& network, const ModelsArguments& arguments) {
  network.threads = train::set_threads();
  model::StagedNetwork built(network.blueprint, 1);
  model::Tensors inputs;
  for (model::Shape shape : network.blueprint.inputs) {
    shape.insert(shape.begin(), arguments.batch);
    inputs.push_back(torch::rand(shape));
  }
  network.time = train::time_network(built, inputs, arguments.repetitions);
}

std::string bytes_text(std::int64_t bytes) {
  return bytes == 0 ? "-" : format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string count_text(std::int64_t count) { return count == 0 ? "-" : with_commas(count); }

std::string time_text(double seconds) { return seconds > 0 ? format_seconds(seconds) : "-"; }

void add_time(nlohmann::ordered_json& row, const train::LayerTime& time) {
  row["forward_s"] = time.forward_s;
  row["backward_s"] = time.backward_s;
}

nlohmann::ordered_json row_of(const Network& n, const ModelsArguments& arguments) {
  nlohmann::ordered_json row{{"kind", "model"},
                             {"model", n.name},
                             {"input", n.blueprint.inputs.front()},
                             {"classes", n.shapes.back().outputs.front().back()},
                             {"stages", n.blueprint.stages.size()},
                             {"layers", n.layers()},
                             {"parameters", n.cost.parameters},
                             {"gradient_bytes", kFloat * n.cost.parameters},
                             {"macs", n.cost.macs},
                             {"activation_bytes", n.cost.activation_bytes}};
  if (arguments.time) {
    row["batch"] = arguments.batch;
    row["threads"] = n.threads;
    row["repetitions"] = arguments.repetitions;
    add_time(row, n.time.whole);
  }
  return row;
}

// Calls use(stage, number of the node in it, number of the layer in the network).
template <class Use>
void for_each_layer(const Network& n, Use&& use) {
  std::size_t layer = 0;
  for (std::size_t s = 0; s < n.blueprint.stages.size(); ++s)
    for (std::size_t i = 0; i < n.blueprint.stages[s].nodes.size(); ++i) use(s, i, layer++);
}

void add_layer_rows(Rows& rows, const Network& n, const ModelsArguments& arguments) {
  for_each_layer(n, [&](std::size_t s, std::size_t i, std::size_t layer) {
    const model::StageSpec& stage = n.blueprint.stages[s];
    const model::LayerShapes& shapes = n.shapes[s].layers[i];
    const model::Cost cost = model::cost_of(stage, i, shapes);
    nlohmann::ordered_json row{{"kind", "layer"},
                               {"model", n.name},
                               {"stage", stage.name},
                               {"layer", stage.nodes[i].name},
                               {"type", model::kind_name(stage.nodes[i])},
                               {"inputs", stage.nodes[i].inputs},
                               {"output", shapes.output},
                               {"parameters", cost.parameters},
                               {"macs", cost.macs},
                               {"activation_bytes", cost.activation_bytes}};
    if (arguments.time) add_time(row, n.time.layers[layer]);
    rows.add(row);
  });
}

void print_layers(const Network& n, const ModelsArguments& arguments) {
  std::printf("  %-12s %-26s %-21s %-16s %12s %14s %11s", "stage", "layer", "type", "output",
              "parameters", "MACs", "activations");
  if (arguments.time) std::printf(" %9s %9s", "forward", "backward");
  std::printf("\n");
  for_each_layer(n, [&](std::size_t s, std::size_t i, std::size_t layer) {
    const model::StageSpec& stage = n.blueprint.stages[s];
    const model::LayerShapes& shapes = n.shapes[s].layers[i];
    const model::Cost cost = model::cost_of(stage, i, shapes);
    std::printf("  %-12s %-26s %-21s %-16s %12s %14s %11s", i == 0 ? stage.name.c_str() : "",
                stage.nodes[i].name.c_str(), model::kind_name(stage.nodes[i]),
                model::text_of(shapes.output).c_str(), count_text(cost.parameters).c_str(),
                count_text(cost.macs).c_str(), bytes_text(cost.activation_bytes).c_str());
    if (arguments.time) {
      const train::LayerTime& time = n.time.layers[layer];
      std::printf(" %9s %9s", time_text(time.forward_s).c_str(),
                  time_text(time.backward_s).c_str());
    }
    std::printf("\n");
  });
}

void print_header(const ModelsArguments& arguments) {
  std::printf("%-12s %-14s %8s %7s %13s %15s %12s", "model", "input", "classes", "layers",
              "parameters", "MACs", "activations");
  if (arguments.time) std::printf(" %10s %10s", "forward", "backward");
  std::printf("\n");
}

void print(const Network& n, const ModelsArguments& arguments) {
  std::printf("%-12s %-14s %8lld %7zu %13s %15s %12s", n.name.c_str(),
              model::text_of(n.blueprint.inputs.front()).c_str(),
              static_cast<long long>(n.shapes.back().outputs.front().back()), n.layers(),
              with_commas(n.cost.parameters).c_str(), with_commas(n.cost.macs).c_str(),
              bytes_text(n.cost.activation_bytes).c_str());
  if (arguments.time) {
    std::printf(" %10s %10s", format_seconds(n.time.whole.forward_s).c_str(),
                format_seconds(n.time.whole.backward_s).c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

void run_models(const ModelsArguments& arguments) {
  if (!arguments.overrides.empty() &&
      std::none_of(arguments.models.begin(), arguments.models.end(), is_recipe_file)) {
    throw UsageError("--set is for recipes: name one with --model RECIPE.toml");
  }
  const auto names = arguments.models.empty() ? model::model_names() : arguments.models;
  std::vector<Network> networks;
  for (const std::string& name : names) networks.push_back(look_at(name, arguments));
  Rows rows(arguments.json);
  const bool table = !rows.on_standard_output();
  if (table) print_header(arguments);
  for (Network& network : networks) {
    if (arguments.time) {
      measure(network, arguments);
    }
    rows.add(row_of(network, arguments));
    if (table) print(network, arguments);
    if (!arguments.layers) continue;
    add_layer_rows(rows, network, arguments);
    if (table) print_layers(network, arguments);
  }
  if (!table) return;
  std::printf(
      "MACs (multiplications with additions) and activations (what a training step keeps, in "
      "float32)\nare those of one image.");
  if (arguments.time) {
    std::printf(" Times are those of %lld, with %d threads, in float32.",
                static_cast<long long>(arguments.batch), networks.front().threads);
  }
  std::printf("\n");
}

}  // namespace

void fill_models_command(CLI::App& command, Outcome&) {
  const auto arguments = std::make_shared<ModelsArguments>();
  std::string names;
  for (const std::string& name : model::model_names()) names += (names.empty() ? "" : ", ") + name;
  command
      .add_option("--model", arguments->models,
                  "These alone; a recipe's file, with its plugins and data, or of: " + names)
      ->type_name("RECIPE.toml|MODEL");
  add_set_option(command, arguments->overrides);
  command.add_flag("--layers", arguments->layers, "Each layer, too");
  command
      .add_option("--size", arguments->size,
                  "Height and width of the images, instead of the network's own")
      ->check(positive_integer());
  command
      .add_option("--classes", arguments->classes, "Scores, instead of the network's own number")
      ->check(positive_integer());
  command.add_flag("--time", arguments->time,
                   "Measure forward and backward passes on this machine, of the network and of "
                   "each of its layers");
  command.add_option("--batch", arguments->batch, "Images of a measured pass")
      ->check(positive_integer())
      ->capture_default_str();
  command.add_option("--repetitions", arguments->repetitions, "Measured passes")
      ->check(positive_integer())
      ->capture_default_str();
  command
      .add_option("--json", arguments->json,
                  "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command.callback([arguments] { run_models(*arguments); });
}

}  // namespace convoy::cli
