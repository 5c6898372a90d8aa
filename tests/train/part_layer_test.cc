// Layers that are computed in pieces, as a rank does while borders travel.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/allocations.h"
#include "tests/model/one_layer.h"
#include "tests/model/user_layers.h"
#include "tests/train/planned_layer.h"

namespace convoy::train {
namespace {

using torch::Tensor;

// Rows of an output, one piece after the other.
Tensor compute_rows(const PartLayer& layer, const Tensor& input, const Slice& box,
                    const std::vector<std::pair<std::int64_t, std::int64_t>>& rows,
                    model::GradientInPieces* pieces) {
  model::Tensors parts;
  for (const auto& [begin, size] : rows) {
    Slice out = layer.output();
    out.begin[1] += begin;
    out.size[1] = size;
    parts.push_back(layer.compute({input}, {box}, out, false, pieces));
  }
  return torch::cat(parts, 2);
}

// A local layer with many filters of few positions: its parameters are what takes memory.
model::Blueprint local_network() {
  model::Blueprint net{"Local", {{4, 40, 8}}, {}};
  model::layer::LocallyConnected local{
      .in = 4, .out = 16, .image = {40, 8}, .kernel = {3, 3}, .padding = {1, 1}};
  net.stages.push_back({"s", {"x"}, {{"local", local, {"x"}, nullptr}}, {"local"}});
  return net;
}

std::map<std::string, Tensor> gradients_of(const PartLayer& layer) {
  std::map<std::string, Tensor> all;
  for (auto& parameter : layer.module()->named_parameters()) {
    all[parameter.key()] = parameter.value().grad();
    parameter.value().mutable_grad() = Tensor();
  }
  return all;
}

void expect_same(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, gradient] : a)
    EXPECT_LT((gradient - b.at(name)).abs().max().item<double>(), 1e-4) << name;
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kAtOnce{{0, 20}},
    kInside{{2, 17}, {0, 2}, {19, 1}};

TEST(PiecesOfALayer, MakeOneGradientOfLocalFilters) {
  const PlannedNetwork planned(local_network(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 1);
  const Slice box = layer.required(layer.output())[0];
  torch::manual_seed(1);
  const Tensor x = torch::randn({2, 4, box.size[1], 8}).requires_grad_();
  const Tensor weight = layer.module()->named_parameters()["weight"];
  // Activations are small beside the filters.
  ASSERT_GT(weight.nbytes(), 10 * x.nbytes());
  const auto peak = [&](const auto& rows, bool together) {
    model::GradientInPieces pieces;
    return model::allocations_of([&] {
             compute_rows(layer, x, box, rows, together ? &pieces : nullptr)
                 .square()
                 .sum()
                 .backward();
           })
        .peak;
  };
  const auto filters = static_cast<std::int64_t>(weight.nbytes());
  EXPECT_LT(peak(kAtOnce, false), filters * 3 / 2);
  const auto expected = gradients_of(layer);
  EXPECT_LT(peak(kInside, true), filters * 3 / 2);
  expect_same(expected, gradients_of(layer));
  // What it saves.
  EXPECT_GT(peak(kInside, false), filters * 5 / 2);
  expect_same(expected, gradients_of(layer));
}

// Other types than the parameters': autocast's copy of them is made once, and cut.
TEST(PiecesOfALayer, MakeOneGradientInAutocast) {
  const PlannedNetwork planned(local_network(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 0);
  const Slice box = layer.required(layer.output())[0];
  torch::manual_seed(1);
  const Tensor x = torch::randn({2, 4, box.size[1], 8});
  const auto gradients = [&](const auto& rows) {
    model::GradientInPieces pieces;
    {
      const model::Bfloat16 scope;
      compute_rows(layer, x, box, rows, &pieces).sum().backward();
    }
    return gradients_of(layer);
  };
  const auto expected = gradients(kAtOnce);
  for (const auto& [name, gradient] : gradients(kInside))
    EXPECT_TRUE(gradient.equal(expected.at(name))) << name;
}

// Of the user's: a parameter of which each piece has its own rows, and one that all pieces read.
TEST(PiecesOfALayer, AddUpForTheUsersModules) {
  model::ModuleList list("Own", {2, 40, 8});
  list.add("window", model::Window(2, 40, 8), model::window_statement());
  const PlannedNetwork planned(list.blueprint(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 1);
  const Slice box = layer.required(layer.output())[0];
  const Tensor x = torch::randn({2, 2, box.size[1], 8});
  const auto gradients = [&](const auto& rows, model::GradientInPieces* pieces) {
    compute_rows(layer, x, box, rows, pieces).square().sum().backward();
    return gradients_of(layer);
  };
  const auto expected = gradients(kAtOnce, nullptr);
  model::GradientInPieces pieces;
  expect_same(expected, gradients(kInside, &pieces));
  // Rows that two pieces read are added up, and those that none reads have none.
  model::GradientInPieces overlapping;
  const std::vector<std::pair<std::int64_t, std::int64_t>> some{{2, 10}, {5, 12}};
  expect_same(gradients(some, nullptr), gradients(some, &overlapping));
}

// Of dilated windows the first rows and later ones may read what is here, and those between not.
TEST(InteriorOfALayer, IsARunOfRowsThatFit) {
  using namespace model::layer;
  model::Blueprint net{"Dilated", {{1, 8, 8}}, {}};
  const Convolution dilated{
      .in = 2, .out = 2, .kernel = {3, 3}, .padding = {4, 4}, .dilation = {4, 4}};
  net.stages.push_back({"s",
                        {"x"},
                        {{"conv", Convolution{.in = 1, .out = 2}, {"x"}, nullptr},
                         {"dilated", dilated, {"conv"}, nullptr}},
                        {"dilated"}});
  const PlannedNetwork planned(net, {.partitions = 2, .images = {model::Division::rows, {2, 1}}});
  const PartLayer layer = planned.layer(1, 0);
  const Slice& tile = planned.plan.values[planned.plan.nodes[1].inputs[0]].tiles[0];
  const auto fits = [&](std::int64_t row) {
    Slice one = layer.output();
    one.begin[1] = row;
    one.size[1] = 1;
    const Slice needed = layer.required(one)[0];
    return needed.begin[1] + needed.size[1] <= tile.begin[1] + tile.size[1];
  };
  std::int64_t all = 0;
  for (std::int64_t row = 0; row < layer.output().size[1]; ++row) all += fits(row) ? 1 : 0;
  const Slice inside = layer.interior(tile);
  ASSERT_GT(inside.size[1], 0);
  EXPECT_LT(inside.size[1], all);
  for (std::int64_t row = inside.begin[1]; row < inside.begin[1] + inside.size[1]; ++row)
    EXPECT_TRUE(fits(row)) << row;
}

}  // namespace
}  // namespace convoy::train
