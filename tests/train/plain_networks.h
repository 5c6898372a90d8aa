// Networks that ranks share, of small images.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/train/registry.h"

namespace convoy::train {

inline model::Node plain_node(std::string name, model::layer::Kind kind,
                              std::vector<std::string> inputs) {
  return {std::move(name), std::move(kind), std::move(inputs), nullptr};
}

// Convolutions with and without padding and strides, pools and fully connected layers; 6, 6, 3, 3
// and 2 rows.
inline model::Blueprint plain_network(const ModelRequest& request) {
  using namespace model::layer;
  const auto node = plain_node;
  const Dropout drop{.probability = request.options.number("dropout")};
  model::Blueprint net{"Plain", {{1, 6, 6}}, {}};
  model::StageSpec image{
      "image",
      {"x"},
      {node("a.conv", Convolution{.in = 1, .out = 4, .kernel = {3, 3}, .padding = {1, 1}}, {"x"}),
       node("a.relu", Relu{}, {"a.conv"}), node("a.drop", drop, {"a.relu"}),
       node("a.pool", MaxPool{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, {"a.drop"}),
       node("b.conv",
            Convolution{.in = 4, .out = 6, .kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}},
            {"a.pool"}),
       node("b.relu", Sigmoid{}, {"b.conv"}),
       node("b.pool", AveragePool{.kernel = {2, 2}, .stride = {1, 1}}, {"b.relu"})},
      {"b.pool"}};
  net.stages.push_back(image);
  net.stages.push_back(
      {"head",
       {"x"},
       {node("flatten", Flatten{}, {"x"}), node("c.fc", Linear{.in = 24, .out = 11}, {"flatten"}),
        node("c.relu", Relu{}, {"c.fc"}), node("c.drop", drop, {"c.relu"}),
        node("d.fc", Linear{.in = 11, .out = request.classes}, {"c.drop"})},
       {"d.fc"}});
  return net;
}

// Branches that read the same value with other windows, batch norm, sums and concatenation, and an
// average over all positions.
inline model::Blueprint branched_network(const ModelRequest& request) {
  using namespace model::layer;
  const auto node = plain_node;
  const bool norm = request.options.flag("norm");
  const auto normed = [&](model::StageSpec& stage, const std::string& name, std::int64_t channels,
                          Kind kind, const std::string& input) {
    stage.nodes.push_back(node(name, std::move(kind), {input}));
    if (!norm) return name;
    stage.nodes.push_back(node(name + "_bn", BatchNorm{.channels = channels}, {name}));
    return name + "_bn";
  };
  model::Blueprint net{"Branched", {{1, 6, 6}}, {}};
  model::StageSpec stem{"stem", {"x"}, {}, {}};
  std::string last =
      normed(stem, "stem.conv", 4,
             Convolution{.in = 1, .out = 4, .kernel = {3, 3}, .padding = {1, 1}}, "x");
  stem.nodes.push_back(node("stem.relu", Relu{}, {last}));
  stem.outputs = {"stem.relu"};
  net.stages.push_back(stem);
  model::StageSpec block{"block", {"x"}, {}, {}};
  const std::string one = normed(
      block, "block.conv1", 6,
      Convolution{.in = 4, .out = 6, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, "x");
  block.nodes.push_back(node("block.relu1", Relu{}, {one}));
  const std::string two =
      normed(block, "block.conv2", 6,
             Convolution{.in = 6, .out = 6, .kernel = {3, 3}, .padding = {1, 1}}, "block.relu1");
  const std::string down =
      normed(block, "block.down", 6, Convolution{.in = 4, .out = 6, .stride = {2, 2}}, "x");
  block.nodes.push_back(node("block.add", Add{}, {two, down}));
  block.nodes.push_back(node("block.relu2", Relu{}, {"block.add"}));
  block.nodes.push_back(node("block.cat", Concatenate{}, {"block.relu2", "block.relu1"}));
  block.nodes.push_back(
      node("block.sub", Subsample{.channels = 14, .stride = {1, 2}}, {"block.cat"}));
  block.outputs = {"block.sub"};
  net.stages.push_back(block);
  net.stages.push_back(
      {"head",
       {"x"},
       {node("mean", AdaptiveAveragePool{}, {"x"}), node("flatten", Flatten{}, {"mean"}),
        node("fc", Linear{.in = 14, .out = request.classes}, {"flatten"})},
       {"fc"}});
  return net;
}

// With an auxiliary classifier behind its first convolution, whose loss counts 0.4.
inline model::Blueprint auxiliary_network(const ModelRequest& request) {
  using namespace model::layer;
  const auto node = plain_node;
  model::Blueprint net{"Auxiliary", {{1, 6, 6}}, {}, {0.4}};
  net.stages.push_back(
      {"stem",
       {"x"},
       {node("stem.conv", Convolution{.in = 1, .out = 4, .kernel = {3, 3}, .padding = {1, 1}},
             {"x"}),
        node("stem.relu", Relu6{}, {"stem.conv"}),
        node("stem.pool", MaxPool{.kernel = {3, 3}, .stride = {2, 2}, .ceil = true},
             {"stem.relu"})},
       {"stem.pool"}});
  net.stages.push_back({"aux",
                        {"x"},
                        {node("aux.mean", AdaptiveAveragePool{}, {"x"}),
                         node("aux.flatten", Flatten{}, {"aux.mean"}),
                         node("aux.fc", Linear{.in = 4, .out = request.classes}, {"aux.flatten"})},
                        {"x", "aux.fc"}});
  net.stages.push_back(
      {"head",
       {"x", "scores"},
       {node("conv", Convolution{.in = 4, .out = 4, .kernel = {3, 3}, .padding = {1, 1}}, {"x"}),
        node("relu", Relu{}, {"conv"}), node("flatten", Flatten{}, {"relu"}),
        node("fc", Linear{.in = 36, .out = request.classes}, {"flatten"})},
       {"fc", "scores"}});
  return net;
}

}  // namespace convoy::train
