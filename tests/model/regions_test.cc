// What layers say they need, against what changes when an input does.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "convoy/base/error.h"
#include "convoy/model/stage.h"

namespace convoy::model {
namespace {

// The smallest box of each input whose elements change the outputs of `part`, by brute force:
// through the derivatives, with all weights and values positive so that nothing cancels out.
Tensors derivatives(Stage& stage, const std::vector<Shape>& shapes, const Slice& part) {
  Tensors inputs;
  for (const Shape& shape : shapes) {
    Shape batch = shape;
    batch.insert(batch.begin(), 1);
    inputs.push_back(torch::rand(batch, torch::kDouble) + 0.5);
    inputs.back().set_requires_grad(true);
  }
  torch::Tensor output = stage.run(0, inputs);
  for (std::size_t d = 0; d < part.shape.size(); ++d)
    output = output.narrow(static_cast<std::int64_t>(d) + 1, part.begin[d], part.size[d]);
  output.sum().backward();
  Tensors gradients;
  for (const auto& input : inputs) {
    gradients.push_back(input.grad().defined() ? input.grad()[0] : torch::zeros_like(input)[0]);
  }
  return gradients;
}

Slice box_of(const torch::Tensor& gradient) {
  Slice box = whole_of("", gradient.sizes().vec());
  const torch::Tensor places = gradient.nonzero();
  for (std::size_t d = 0; d < box.shape.size(); ++d) {
    if (places.size(0) == 0) {
      box.size[d] = 0;
      continue;
    }
    const auto column = places.select(1, static_cast<std::int64_t>(d));
    box.begin[d] = column.min().item<std::int64_t>();
    box.size[d] = column.max().item<std::int64_t>() + 1 - box.begin[d];
  }
  return box;
}

struct Case {
  const char* name;
  layer::Kind kind;
  std::vector<Shape> inputs;
  // A maximum's derivative is that of one element: only the box of all possible ones is stated.
  bool exact = true;
};

class Regions : public testing::TestWithParam<Case> {};

TEST_P(Regions, AreTheSmallestBoxes) {
  const Case& c = GetParam();
  StageSpec spec{"s", {}, {{"layer", c.kind, {}, {}}}, {"layer"}};
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    spec.inputs.push_back("x" + std::to_string(i));
    spec.nodes[0].inputs.push_back(spec.inputs.back());
  }
  torch::manual_seed(1);
  Stage stage(spec, 1);
  stage.to(torch::kDouble);
  stage.eval();
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : stage.parameters()) parameter.uniform_(0.5, 1);
  }
  const Node& node = spec.nodes[0];
  const Shape shape = output_shape(node, c.inputs);
  const auto stated_and_real = [&](const Slice& part) {
    const auto stated = required_input(node, c.inputs, part);
    ASSERT_EQ(stated.size(), c.inputs.size());
    const Tensors real = derivatives(stage, c.inputs, part);
    for (std::size_t i = 0; i < stated.size(); ++i) {
      EXPECT_EQ(stated[i].tensor, spec.inputs[i]);
      const Slice box = box_of(real[i]);
      EXPECT_EQ(stated[i].elements() == 0, box.elements() == 0) << part.text();
      if (box.elements() == 0) continue;
      for (std::size_t d = 0; d < box.shape.size(); ++d) {
        if (c.exact) {
          EXPECT_EQ(stated[i].begin[d], box.begin[d]) << part.text() << " dimension " << d;
          EXPECT_EQ(stated[i].size[d], box.size[d]) << part.text() << " dimension " << d;
        }
        EXPECT_LE(stated[i].begin[d], box.begin[d]);
        EXPECT_GE(stated[i].begin[d] + stated[i].size[d], box.begin[d] + box.size[d]);
      }
    }
  };
  // Every range of every dimension, the others whole.
  for (std::size_t d = 0; d < shape.size(); ++d) {
    for (std::int64_t begin = 0; begin < shape[d]; ++begin) {
      for (std::int64_t size = 1; begin + size <= shape[d]; ++size) {
        Slice part = whole_of("layer", shape);
        part.begin[d] = begin;
        part.size[d] = size;
        stated_and_real(part);
      }
    }
  }
  Slice nothing = whole_of("layer", shape);
  nothing.size.back() = 0;
  for (const Slice& part : required_input(node, c.inputs, nothing)) EXPECT_EQ(part.elements(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Regions,
    testing::Values(
        Case{"convolution",
             layer::Convolution{.in = 2, .out = 3, .kernel = {3, 3}, .padding = {1, 1}},
             {{2, 5, 6}}},
        Case{"strided",
             layer::Convolution{
                 .in = 2, .out = 2, .kernel = {5, 3}, .stride = {2, 3}, .padding = {2, 0}},
             {{2, 9, 11}}},
        Case{"dilated",
             layer::Convolution{.in = 1,
                                .out = 1,
                                .kernel = {3, 2},
                                .stride = {1, 2},
                                .padding = {2, 1},
                                .dilation = {2, 3}},
             {{1, 8, 9}}},
        Case{"grouped",
             layer::Convolution{.in = 6, .out = 9, .kernel = {1, 1}, .groups = 3},
             {{6, 2, 3}}},
        Case{"overpadded",
             layer::Convolution{
                 .in = 1, .out = 1, .kernel = {2, 2}, .stride = {2, 2}, .padding = {3, 3}},
             {{1, 4, 5}}},
        Case{"locally_connected",
             layer::LocallyConnected{.in = 2,
                                     .out = 3,
                                     .image = {9, 8},
                                     .kernel = {3, 2},
                                     .stride = {2, 3},
                                     .padding = {1, 0}},
             {{2, 9, 8}}},
        Case{"linear", layer::Linear{6, 4}, {{6}}},
        Case{"linear_of_rows", layer::Linear{3, 2}, {{4, 3}}},
        Case{"batch_norm", layer::BatchNorm{3}, {{3, 2, 4}}},
        Case{"relu", layer::Relu(), {{3, 2, 4}}}, Case{"relu6", layer::Relu6(), {{3, 2, 4}}},
        Case{"sigmoid", layer::Sigmoid(), {{3, 2, 4}}},
        Case{"l2_pool", layer::L2Pool{{3, 2}, {2, 3}, {1, 1}}, {{2, 7, 8}}},
        Case{"local_contrast_norm", layer::LocalContrastNorm{{3, 5}, 1}, {{2, 8, 11}}},
        Case{"local_contrast_norm_of_means",
             layer::LocalContrastNorm{{3, 3}, 0, 0.01, true},
             {{2, 5, 6}},
             false},
        Case{"max_pool", layer::MaxPool{{3, 3}, {2, 2}, {1, 1}}, {{2, 7, 8}}, false},
        Case{"max_pool_of_all", layer::MaxPool{{3, 2}, {2, 3}, {1, 0}, true}, {{2, 8, 9}}, false},
        Case{"average_pool", layer::AveragePool{{3, 2}, {2, 2}, {1, 1}}, {{2, 7, 8}}},
        Case{"adaptive", layer::AdaptiveAveragePool{{3, 4}}, {{2, 7, 9}}},
        Case{"adaptive_larger", layer::AdaptiveAveragePool{{5, 6}}, {{1, 3, 4}}},
        Case{"subsample", layer::Subsample{5, {2, 3}}, {{3, 7, 8}}},
        Case{"subsample_channels", layer::Subsample{2, {1, 2}}, {{2, 3, 4}}},
        Case{"flatten", layer::Flatten(), {{2, 3, 4}}},
        Case{"dropout", layer::Dropout(), {{3, 2, 4}}},
        Case{"add", layer::Add(), {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}},
        Case{"concatenate", layer::Concatenate{0}, {{2, 3, 2}, {1, 3, 2}, {3, 3, 2}}},
        Case{"concatenate_rows", layer::Concatenate{1}, {{2, 1, 2}, {2, 3, 2}}}),
    [](const auto& info) { return std::string(info.param.name); });

// A maximum over positive and growing values is its last one: the end of each window.
TEST(MaxPool, StatesItsWindows) {
  const Node pool{"p", layer::MaxPool{{3, 3}, {2, 2}, {1, 1}}, {"x"}, {}};
  const std::vector<Shape> shapes{{1, 7, 8}};
  ASSERT_EQ(output_shape(pool, shapes), (Shape{1, 4, 4}));
  const auto rows = [&](std::int64_t begin, std::int64_t size) {
    const Slice part =
        required_input(pool, shapes, {"p", {1, 4, 4}, {0, begin, 0}, {1, size, 4}})[0];
    return std::pair(part.begin[1], part.begin[1] + part.size[1]);
  };
  EXPECT_EQ(rows(0, 1), (std::pair<std::int64_t, std::int64_t>(0, 2)));
  EXPECT_EQ(rows(1, 1), (std::pair<std::int64_t, std::int64_t>(1, 4)));
  EXPECT_EQ(rows(3, 1), (std::pair<std::int64_t, std::int64_t>(5, 7)));
  EXPECT_EQ(rows(1, 2), (std::pair<std::int64_t, std::int64_t>(1, 6)));
}

// As many windows as LibTorch has, whether or not they fill the image.
TEST(MaxPool, HasLibTorchsWindows) {
  for (std::int64_t extent = 3; extent <= 9; ++extent) {
    const auto image = torch::rand({1, 1, extent, extent + 1});
    for (const std::int64_t kernel : {2, 3}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t padding : {0, 1}) {
          for (const bool ceil : {false, true}) {
            const Node pool{
                "p", layer::MaxPool{{kernel, kernel}, {stride, 2}, {padding, 0}, ceil}, {"x"}, {}};
            const std::vector<Shape> shapes{{1, extent, extent + 1}};
            const auto wanted =
                torch::max_pool2d(image, kernel, {stride, 2}, {padding, 0}, 1, ceil);
            EXPECT_EQ(output_shape(pool, shapes), wanted[0].sizes().vec())
                << extent << " " << kernel << " " << stride << " " << padding << " " << ceil;
          }
        }
      }
    }
  }
}

TEST(Regions, RefuseOtherShapes) {
  const Node relu{"r", layer::Relu(), {"x"}, {}};
  const std::vector<Shape> shapes{{2, 2}};
  EXPECT_THROW(required_input(relu, shapes, {"r", {2, 3}, {0, 0}, {1, 1}}), UsageError);
  EXPECT_THROW(required_input(relu, shapes, {"r", {2, 2}, {0, 1}, {1, 2}}), UsageError);
}

}  // namespace
}  // namespace convoy::model
