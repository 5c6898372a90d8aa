// Networks made up at random, and how they are divided.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "convoy/model/partition.h"

namespace convoy::model {

class Random {
 public:
  explicit Random(unsigned seed) : generator_(seed) {}
  // From `least` to `most`.
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(generator_() % static_cast<unsigned>(most - least + 1));
  }
  bool chance(int percent) { return number(1, 100) <= percent; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[number(0, static_cast<std::int64_t>(all.size()) - 1)];
  }

 private:
  std::mt19937 generator_;
};

// What is not up to chance.
struct MadeUpLimits {
  int partitions = 0;  // 0: 1 to 5
  Shape image = {};    // empty: up to 4 channels of up to 14 x 14
  std::int64_t classes = 5;
  bool only_layers = false;  // without rules for all layers of a kind
  // A layer of this name that is a module of the user's; null: there are none. Convolutions then
  // have groups and dilated windows, too.
  std::function<Node(Random& random, const std::string& name, const Shape& input)> module = nullptr;
};

// A network of images with branches, and fully connected layers; rules for some of its layers.
class MadeUp {
 public:
  explicit MadeUp(unsigned seed, const MadeUpLimits& limits = {})
      : random_(seed), module_(limits.module) {
    rules.partitions =
        limits.partitions > 0 ? limits.partitions : static_cast<int>(random_.number(1, 5));
    if (random_.chance(40)) rules.images.how = Division::tiles;
    if (!limits.only_layers) {
      if (rules.images.how == Division::rows) rules.images.parts = parts();
      rules.units = parts();
    }
    net.name = "Random";
    shape_ = limits.image.empty()
                 ? Shape{random_.number(1, 4), random_.number(6, 14), random_.number(6, 14)}
                 : limits.image;
    net.inputs = {shape_};
    begin("images");
    for (std::int64_t i = random_.number(2, 6); i-- > 0;) random_.chance(35) ? branch() : layer();
    end();
    begin("head");
    add(layer::Flatten(), {});
    const std::int64_t features = elements_of(shape_);
    add(layer::Linear{features, 7}, {Division::whole, Division::units});
    add(layer::Sigmoid(), {Division::whole, Division::units});
    add(layer::Linear{7, limits.classes}, {});
    end();
  }

  Blueprint net;
  PartitionRules rules;

 private:
  std::vector<double> parts() {
    std::vector<double> all;
    if (random_.chance(50)) return all;
    for (int p = 0; p < rules.partitions; ++p)
      all.push_back(static_cast<double>(random_.number(0, 3)));
    all[static_cast<std::size_t>(random_.number(0, rules.partitions - 1))] = 1;
    return all;
  }

  void begin(const std::string& stage) {
    net.stages.push_back({stage, {"from before"}, {}, {}});
    last_ = "from before";
  }
  void end() { net.stages.back().outputs = {last_}; }

  // Reads the last one, unless told otherwise; sometimes with one of these divisions.
  std::string add(layer::Kind kind, const std::vector<Division>& divisions,
                  std::vector<std::string> inputs = {}) {
    if (inputs.empty()) inputs = {last_};
    return add(
        Node{"layer" + std::to_string(++count_), std::move(kind), std::move(inputs), nullptr},
        divisions);
  }
  std::string add(Node node, const std::vector<Division>& divisions) {
    std::vector<Shape> shapes(node.inputs.size(), shape_);
    if (!divisions.empty() && random_.chance(30)) {
      const auto chosen = random_.number(0, static_cast<std::int64_t>(divisions.size()) - 1);
      LayerDivision division{divisions[static_cast<std::size_t>(chosen)]};
      if (division.how == Division::rows || division.how == Division::units)
        division.parts = parts();
      rules.layers[node.name] = division;
    }
    shape_ = output_shape(node, shapes);
    last_ = node.name;
    net.stages.back().nodes.push_back(std::move(node));
    return last_;
  }

  layer::Convolution convolution(std::int64_t stride) {
    const std::int64_t kernel = random_.one_of<std::int64_t>({1, 3, 5});
    return {.in = shape_[0],
            .out = random_.number(1, 5),
            .kernel = {kernel, kernel},
            .stride = {stride, 1},
            .padding = {kernel / 2, kernel / 2}};
  }

  // Those with groups can't be divided by units.
  void special_convolution() {
    const std::int64_t groups = shape_[0];
    const layer::Convolution special{.in = groups,
                                     .out = groups * random_.number(1, 2),
                                     .kernel = {3, 3},
                                     .padding = {2, 1},
                                     .dilation = {2, 1},
                                     .groups = groups};
    add(special, {Division::whole, Division::rows, Division::tiles});
  }

  void layer() {
    if (module_ && random_.chance(30)) {
      if (random_.chance(30)) return special_convolution();
      Node node = module_(random_, "layer" + std::to_string(++count_), shape_);
      node.inputs = {last_};
      const bool in_parts = std::get<layer::Opaque>(node.kind).in_parts;
      add(std::move(node), in_parts ? std::vector<Division>{Division::whole, Division::rows,
                                                            Division::tiles, Division::units}
                                    : std::vector<Division>{Division::whole});
      return;
    }
    const std::vector<Division> all{Division::whole, Division::rows, Division::tiles,
                                    Division::units};
    const std::vector<Division> images{Division::whole, Division::rows, Division::tiles};
    switch (random_.number(0, 6)) {
      case 0:
        add(convolution(random_.number(1, 2)), all);
        break;
      case 1: {
        layer::LocallyConnected local{.in = shape_[0],
                                      .out = random_.number(1, 3),
                                      .image = {shape_[1], shape_[2]},
                                      .kernel = {std::min<std::int64_t>(shape_[1], 3), 1},
                                      .stride = {random_.number(1, 2), 1}};
        add(local, all);
        break;
      }
      case 2:
        add(layer::MaxPool{{3, 2}, {random_.number(1, 3), 1}, {1, 1}, random_.chance(50)}, all);
        break;
      case 3:
        add(layer::LocalContrastNorm{{3, 5}}, images);
        break;
      case 4:
        add(layer::BatchNorm{shape_[0]}, all);
        break;
      case 5:
        add(layer::AdaptiveAveragePool{{random_.number(2, 5), random_.number(2, 5)}},
            {Division::whole, Division::units});
        break;
      default:
        add(random_.chance(50) ? layer::Kind(layer::Relu()) : layer::Kind(layer::Relu6()), all);
    }
  }

  // Two layers of the same, and their sum or both together.
  void branch() {
    const std::string before = last_;
    const Shape input = shape_;
    const std::vector<Division> all{Division::whole, Division::rows, Division::tiles,
                                    Division::units};
    layer::Convolution first = convolution(1);
    const std::string left = add(first, all, {before});
    shape_ = input;
    layer::Convolution second = convolution(1);
    second.out = first.out;
    const std::string right = add(second, all, {before});
    if (random_.chance(50)) {
      add(layer::Add(), all, {left, right});
    } else {
      add(layer::Concatenate{static_cast<std::size_t>(random_.number(0, 2))}, all, {left, right});
    }
  }

  Random random_;
  std::function<Node(Random&, const std::string&, const Shape&)> module_;
  Shape shape_;
  std::string last_;
  int count_ = 0;
};

}  // namespace convoy::model
