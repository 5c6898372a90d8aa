// Which partition has what of each layer.
#include "convoy/train/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

TEST(Placement, TheLastRuleThatFitsCounts) {
  const model::Blueprint net = model::make_blueprint("alexnet");
  const PlacementRecipe rules{{{{"classifier.*"}, "units", {2, 1}},
                               {{"classifier.6", "*.1"}, "replicated", {}},
                               {{"features.0"}, "units", {}}}};
  const auto placed = place_layers(rules, net);
  std::size_t layers = 0;
  for (const auto& stage : net.stages) layers += stage.nodes.size();
  ASSERT_EQ(placed.size(), layers);
  const auto of = [&](const std::string& name) {
    for (const LayerPlacement& layer : placed) {
      if (layer.layer == name) return layer;
    }
    throw std::logic_error(name);
  };
  EXPECT_EQ(of("classifier.4"), (LayerPlacement{"classifier.4", "units", {2, 1}}));
  EXPECT_EQ(of("classifier.1"), (LayerPlacement{"classifier.1", "replicated", {}}));
  EXPECT_EQ(of("classifier.6"), (LayerPlacement{"classifier.6", "replicated", {}}));
  EXPECT_EQ(of("features.0").how, "units");
  EXPECT_EQ(of("features.3").how, "replicated");
  EXPECT_EQ(place_layers({}, net, "units").front().how, "units");
}

TEST(Placement, AnUnknownLayerIsSaid) {
  const model::Blueprint net = model::make_blueprint("alexnet");
  const auto said = [&](const std::string& pattern) {
    return test::message_of<UsageError>([&] {
      place_layers({{{{"features.*"}, "a", {}}, {{pattern}, "b", {}}}}, net);
    });
  };
  EXPECT_EQ(
      said("clasifier.1"),
      "placement.layers[1].layers: AlexNet has no layer that fits 'clasifier.1'; did you mean "
      "classifier.1?");
  EXPECT_NE(said("encoder.*").find("`convoy models --model NAME --layers` lists them"),
            std::string::npos);
}

// Whatever the parts, together they have every element of each parameter and output once.
TEST(Placement, PartitionsHoldTheWholeTogether) {
  const model::Blueprint net = model::make_blueprint("alexnet", {.classes = 10});
  const auto shapes = shapes_of(net, net.inputs);
  for (const std::vector<double>& parts :
       std::vector<std::vector<double>>{{}, {1}, {3, 1}, {0, 2, 1}, {5, 1, 1, 1, 0.5, 0}}) {
    const int partitions = parts.empty() ? 7 : static_cast<int>(parts.size());
    for (std::size_t s = 0; s < net.stages.size(); ++s) {
      for (std::size_t n = 0; n < net.stages[s].nodes.size(); ++n) {
        const model::Node& node = net.stages[s].nodes[n];
        std::map<std::string, std::vector<Slice>> held;
        for (int i = 0; i < partitions; ++i) {
          LayerPart part = split_by_output(node, shapes[s].layers[n].inputs, parts, i, partitions);
          held["output"].push_back(part.output);
          for (Slice& slice : part.tensors) held[slice.tensor].push_back(slice);
        }
        EXPECT_EQ(held.size(), 1 + tensors_of(node).size());
        for (auto& [name, slices] : held) {
          std::erase_if(slices, [](const Slice& slice) { return slice.elements() == 0; });
          const auto whole = whole_of(slices.at(0).tensor, slices[0].shape);
          EXPECT_EQ(problem_of_tiling(whole, slices), std::nullopt) << node.name;
        }
      }
    }
  }
  // 4096 inputs, 10 units: 7.5 and 2.5 of them.
  const model::Node& last = net.stages.back().nodes.back();
  const LayerPart part =
      split_by_output(last, shapes.back().layers.back().inputs, std::vector<double>{3, 1}, 1, 2);
  EXPECT_EQ(part.output, (Slice{last.name, {10}, {8}, {2}}));
  EXPECT_EQ(part.tensors.at(0), (Slice{last.name + ".weight", {10, 4096}, {8, 0}, {2, 4096}}));
  EXPECT_EQ(part.tensors.at(1), (Slice{last.name + ".bias", {10}, {8}, {2}}));
}

TEST(Placement, AModuleOfTheUsersIsNotSplit) {
  const model::Node mine{"mine",
                         model::layer::Opaque{.type = "Mine",
                                              .tensors = {},
                                              .output = [](const model::Shape& s) { return s; },
                                              .required = {},
                                              .macs = {}},
                         {"x"},
                         nullptr};
  const std::vector<model::Shape> inputs{{4}};
  const std::string said =
      test::message_of<UsageError>([&] { split_by_output(mine, inputs, {}, 0, 2); });
  EXPECT_NE(said.find("layer 'mine' is a module of your own"), std::string::npos) << said;
}

}  // namespace
}  // namespace convoy::train
