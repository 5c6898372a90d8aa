// Layers of local networks: against tests/golden/make_local_layers.py, and what follows from them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "tests/golden/fill.h"
#include "tests/golden/read.h"
#include "tests/model/one_layer.h"

namespace convoy::model {
namespace {

using nlohmann::json;
using torch::Tensor;

layer::Kind kind_of(const std::string& name) {
  if (name == "sigmoid") return layer::Sigmoid();
  if (name == "local")
    return layer::LocallyConnected{.in = 2, .out = 3, .image = {5, 6}, .kernel = {3, 2}};
  if (name == "local_strided") {
    return layer::LocallyConnected{.in = 2,
                                   .out = 2,
                                   .image = {6, 5},
                                   .kernel = {2, 3},
                                   .stride = {2, 2},
                                   .padding = {0, 1},
                                   .bias = false};
  }
  if (name == "l2_pool") return layer::L2Pool{{3, 2}, {2, 2}};
  if (name == "l2_pool_overlapping") return layer::L2Pool{{3, 3}, {1, 1}, {1, 1}, 0.25};
  if (name == "norm_uniform") return layer::LocalContrastNorm{{3, 3}};
  if (name == "norm_gaussian") return layer::LocalContrastNorm{{5, 3}, 1.25};
  if (name == "norm_least") return layer::LocalContrastNorm{{3, 3}, 0, 0.55};
  if (name == "norm_mean") return layer::LocalContrastNorm{{3, 3}, 1, 0.01, true};
  throw std::runtime_error("no layer for the golden case " + name);
}

Tensor filled(const std::string& name, torch::IntArrayRef shape) {
  const auto count = static_cast<std::size_t>(c10::multiply_integers(shape));
  return torch::tensor(golden::fill(name, count), torch::kDouble).reshape(shape);
}

Tensor as_tensor(const json& values) {
  return torch::tensor(values.get<std::vector<double>>(), torch::kDouble);
}

void expect_golden(const json& wanted, torch::Dtype type, torch::MemoryFormat format,
                   double tolerance) {
  const std::string name = wanted["name"];
  SCOPED_TRACE(name);
  const auto stage = stage_of(kind_of(name), type);
  for (auto& item : stage->named_parameters()) {
    const torch::NoGradGuard no_grad;
    const std::string own = item.key().substr(item.key().find('.') + 1);
    item.value().copy_(filled(name + "." + own, item.value().sizes()));
  }
  const auto shape = wanted["input"].get<Shape>();
  Tensor input = filled(name + ".input", shape).to(type);
  if (shape.size() == 4) input = input.contiguous(format);
  input.set_requires_grad(true);
  const Tensor output = stage->forward({input}).front();
  ASSERT_EQ(output.sizes().vec(), wanted["output"].get<Shape>());
  EXPECT_EQ(output.scalar_type(), type);
  EXPECT_LT(difference(output, as_tensor(wanted["values"])), tolerance);
  output.backward(filled(name + ".factors", output.sizes()).to(type));
  EXPECT_EQ(wanted["gradients"].size(), 1 + stage->parameters().size());
  for (const auto& [key, gradient] : wanted["gradients"].items()) {
    const Tensor own =
        key == "input" ? input.grad() : stage->named_parameters()["layer." + key].grad();
    EXPECT_LT(difference(own, as_tensor(gradient)), tolerance) << key;
  }
}

TEST(LocalLayers, AreTheirFormulas) {
  const json all = golden::read("local_layers.json");
  ASSERT_EQ(all["cases"].size(), 9u);
  for (const json& one : all["cases"]) {
    expect_golden(one, torch::kDouble, torch::MemoryFormat::Contiguous, 1e-12);
    expect_golden(one, torch::kFloat, torch::MemoryFormat::ChannelsLast, 2e-5);
  }
}

// Each entry of the gradient against a difference quotient.
void expect_derivative(const std::function<Tensor(const Tensor&)>& value, const Tensor& at,
                       const Tensor& gradient) {
  constexpr double kStep = 1e-5;
  const torch::NoGradGuard no_grad;
  Tensor moved = at.detach().clone();
  const Tensor flat = moved.view(-1), wanted = gradient.contiguous().view(-1);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double middle = flat[i].item<double>();
    flat[i] = middle + kStep;
    const double above = value(moved).item<double>();
    flat[i] = middle - kStep;
    const double below = value(moved).item<double>();
    flat[i] = middle;
    EXPECT_NEAR(wanted[i].item<double>(), (above - below) / (2 * kStep), 1e-7) << i;
  }
}

// With windows that lie beside the golden cases': gaps between them, larger than the image.
TEST(LocalLayers, HaveTheirDerivatives) {
  const std::vector<std::pair<layer::Kind, Shape>> cases{
      {layer::LocallyConnected{.in = 2,
                               .out = 2,
                               .image = {4, 5},
                               .kernel = {2, 1},
                               .stride = {3, 2},
                               .padding = {2, 1}},
       {2, 2, 4, 5}},
      {layer::L2Pool{{1, 2}, {2, 3}}, {2, 2, 4, 5}},
      {layer::LocalContrastNorm{{7, 1}, 2}, {2, 2, 3, 4}},
      {layer::LocalContrastNorm{{1, 3}, 0, 0.2, true}, {2, 2, 3, 4}},
      {layer::Sigmoid(), {2, 3}}};
  for (const auto& [kind, shape] : cases) {
    const auto stage = stage_of(kind);
    SCOPED_TRACE(kind_name(stage->spec().nodes[0]));
    torch::manual_seed(4);
    const Tensor input = torch::randn(shape, torch::kDouble).requires_grad_();
    Tensor factors;
    const auto value = [&](const Tensor& x) {
      const Tensor output = stage->forward({x}).front();
      if (!factors.defined()) factors = torch::randn_like(output.detach());
      return (output * factors).sum();
    };
    value(input).backward();
    expect_derivative(value, input, input.grad());
    for (const auto& item : stage->named_parameters()) {
      const Tensor parameter = item.value();
      expect_derivative(
          [&](const Tensor& values) {
            const Tensor before = parameter.detach().clone();
            parameter.copy_(values);
            const Tensor result = value(input);
            parameter.copy_(before);
            return result;
          },
          parameter, parameter.grad());
    }
  }
}

TEST(LocallyConnected, IsAConvolutionWhereAllFiltersAreAlike) {
  const layer::LocallyConnected local{
      .in = 3, .out = 4, .image = {9, 8}, .kernel = {4, 3}, .stride = {2, 1}, .padding = {1, 2}};
  const auto stage = stage_of(local);
  torch::manual_seed(2);
  const Tensor filters = torch::randn({4, 3, 4, 3}, torch::kDouble).requires_grad_();
  const Tensor biases = torch::randn({4}, torch::kDouble).requires_grad_();
  const auto parameters = stage->named_parameters();
  {
    const torch::NoGradGuard no_grad;
    parameters["layer.weight"].copy_(filters.expand_as(parameters["layer.weight"]));
    parameters["layer.bias"].copy_(biases.expand_as(parameters["layer.bias"]));
  }
  const Tensor ours = torch::randn({2, 3, 9, 8}, torch::kDouble).requires_grad_();
  const Tensor theirs = ours.detach().clone().requires_grad_();
  const Tensor output = stage->forward({ours}).front();
  const Tensor wanted = torch::conv2d(theirs, filters, biases, {2, 1}, {1, 2});
  ASSERT_EQ(output.sizes(), wanted.sizes());
  EXPECT_LT(difference(output, wanted), 1e-12);
  output.square().sum().backward();
  wanted.square().sum().backward();
  EXPECT_LT(difference(ours.grad(), theirs.grad()), 1e-11);
  EXPECT_LT(difference(parameters["layer.weight"].grad().flatten(0, 1).sum(0), filters.grad()),
            1e-11);
  EXPECT_LT(difference(parameters["layer.bias"].grad().flatten(0, 1).sum(0), biases.grad()), 1e-11);
}

// Of so large a batch only some rows are computed at a time.
TEST(LocallyConnected, IsTheSameForManySamplesAsForEach) {
  const layer::LocallyConnected local{.in = 4, .out = 2, .image = {16, 40}, .kernel = {9, 9}};
  const auto together = stage_of(local, torch::kFloat), alone = stage_of(local, torch::kFloat);
  torch::manual_seed(3);
  const Tensor images = torch::randn({160, 4, 16, 40}).requires_grad_();
  const Tensor singles = images.detach().clone().requires_grad_();
  const Tensor output = together->forward({images}).front();
  output.square().sum().backward();
  for (std::int64_t i = 0; i < images.size(0); i += 32) {
    const Tensor own = alone->forward({singles.narrow(0, i, 32)}).front();
    EXPECT_LT(difference(own, output.detach().narrow(0, i, 32).to(torch::kDouble)), 1e-5);
    own.square().sum().backward();
  }
  EXPECT_LT(difference(singles.grad(), images.grad().to(torch::kDouble)), 1e-4);
  const auto ours = together->named_parameters(), theirs = alone->named_parameters();
  for (const auto& item : ours) {
    const Tensor wanted = theirs[item.key()].grad().to(torch::kDouble);
    EXPECT_LT(difference(item.value().grad(), wanted), 1e-5 * wanted.abs().max().item<double>())
        << item.key();
  }
}

Tensor part_of(Tensor whole, const Slice& part, std::int64_t first_dimension) {
  for (std::size_t d = 0; d < part.shape.size(); ++d)
    whole =
        whole.narrow(static_cast<std::int64_t>(d) + first_dimension, part.begin[d], part.size[d]);
  return whole;
}

// Some of its rows, columns and maps are such a layer too, of what they need of image and
// parameters, with zeros where the image's padding was.
TEST(LocallyConnected, HasPartsThatAreLayers) {
  const layer::LocallyConnected local{
      .in = 2, .out = 4, .image = {9, 8}, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}};
  const auto whole = stage_of(local);
  const Node& node = whole->spec().nodes[0];
  torch::manual_seed(12);
  const Tensor x = torch::randn({2, 2, 9, 8}, torch::kDouble);
  const std::vector<Shape> shapes{{2, 9, 8}};
  const Tensor output = whole->forward({x}).front();
  const Shape all = output_shape(node, shapes);
  ASSERT_EQ(all, (Shape{4, 5, 9}));
  for (const Slice& wanted :
       {Slice{"", all, {0, 0, 0}, {4, 2, 9}}, Slice{"", all, {1, 2, 3}, {2, 2, 4}},
        Slice{"", all, {0, 3, 5}, {4, 2, 4}}}) {
    const Slice needed = required_input(node, shapes, wanted).front();
    std::vector<std::int64_t> padding;  // as constant_pad_nd has it: the last dimension first
    layer::LocallyConnected own = local;
    own.out = wanted.size[0];
    own.padding = {0, 0};
    for (const std::size_t d : {std::size_t{1}, std::size_t{0}}) {
      own.image[d] = (wanted.size[d + 1] - 1) * local.stride[d] + local.kernel[d];
      const std::int64_t before =
          std::max<std::int64_t>(0, local.padding[d] - wanted.begin[d + 1] * local.stride[d]);
      padding.insert(padding.end(), {before, own.image[d] - needed.size[d + 1] - before});
    }
    const auto part = stage_of(own);
    const auto slices = required_parameters(node, shapes, wanted);
    {
      const torch::NoGradGuard no_grad;
      for (const Slice& slice : slices) {
        part->named_parameters()[slice.tensor].copy_(
            part_of(whole->named_parameters()[slice.tensor], slice, 0));
      }
    }
    const Tensor seen = torch::constant_pad_nd(part_of(x, needed, 1), padding);
    EXPECT_LT(difference(part->forward({seen}).front(), part_of(output, wanted, 1)), 1e-12)
        << wanted.text();
  }
}

TEST(LocallyConnected, TakesImagesOfItsShapeAlone) {
  const auto stage = stage_of(layer::LocallyConnected{.in = 1, .out = 1, .image = {4, 4}});
  EXPECT_NO_THROW(stage->forward({torch::zeros({2, 1, 4, 4}, torch::kDouble)}));
  for (const Shape& shape : {Shape{2, 1, 4, 5}, Shape{2, 2, 4, 4}, Shape{1, 4, 4}})
    EXPECT_THROW(stage->forward({torch::zeros(shape, torch::kDouble)}), c10::Error);
}

// What comes after writes over its output.
TEST(LocallyConnected, NeedsItsOutputForNothing) {
  const layer::Kind local = layer::LocallyConnected{.in = 1, .out = 2, .image = {4, 4}};
  for (const layer::Kind& after : {layer::Kind(layer::Relu()), layer::Kind(layer::Sigmoid())}) {
    Stage stage(
        {"s", {"x"}, {{"local", local, {"x"}, {}}, {"after", after, {"local"}, {}}}, {"after"}}, 1);
    ASSERT_TRUE(in_place(stage.spec(), 1));
    torch::manual_seed(5);
    const Tensor x = torch::randn({2, 1, 4, 4}).requires_grad_();
    const Tensor same = x.detach().clone().requires_grad_();
    stage.forward({x}).front().square().sum().backward();
    stage.run(1, {stage.run(0, {same})}).square().sum().backward();
    EXPECT_TRUE(x.grad().equal(same.grad()));
    EXPECT_GT(x.grad().abs().max().item<double>(), 0);
  }
}

// Where a square root has no derivative.
TEST(LocalLayers, HaveFiniteGradientsOnBlankImages) {
  for (const layer::Kind& kind :
       {layer::Kind(layer::L2Pool{{3, 3}, {1, 1}}), layer::Kind(layer::LocalContrastNorm{{3, 3}}),
        layer::Kind(layer::LocalContrastNorm{{3, 3}, 1, 0.01, true})}) {
    const auto stage = stage_of(kind);
    for (const double gray : {0.0, 0.5}) {
      const Tensor x = torch::full({1, 2, 5, 5}, gray, torch::kDouble).requires_grad_();
      const Tensor output = stage->forward({x}).front();
      EXPECT_TRUE(output.isfinite().all().item<bool>());
      output.sum().backward();
      EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
    }
  }
}

// Filters in bfloat16, squares and means in float32: within the eight bits of the former.
TEST(LocalLayers, ComputeUnderAutocast) {
  const StageSpec spec{
      "s",
      {"x"},
      {{"filter",
        layer::LocallyConnected{.in = 2, .out = 4, .image = {9, 9}, .kernel = {4, 4}},
        {"x"},
        {}},
       {"pool", layer::L2Pool{{2, 2}, {1, 1}}, {"filter"}, {}},
       {"norm", layer::LocalContrastNorm{{3, 3}, 1}, {"pool"}, {}}},
      {"norm"}};
  Stage exact(spec, 1), rough(spec, 1);
  torch::manual_seed(6);
  const Tensor x = torch::randn({3, 2, 9, 9}).requires_grad_();
  const Tensor same = x.detach().clone().requires_grad_();
  const Tensor wanted = exact.forward({x}).front();
  Tensor got;
  {
    const Bfloat16 autocast;
    EXPECT_EQ(rough.run(0, {same}).scalar_type(), torch::kBFloat16);
    got = rough.forward({same}).front();
  }
  EXPECT_EQ(got.scalar_type(), torch::kFloat);
  const auto close = [](const Tensor& a, const Tensor& b) {
    return (a - b).norm().item<double>() < 0.03 * b.norm().item<double>();
  };
  EXPECT_TRUE(close(got.detach(), wanted.detach()));
  EXPECT_FALSE(got.detach().equal(wanted.detach()));
  const Tensor factors = torch::randn_like(wanted.detach());
  wanted.backward(factors);
  got.backward(factors);
  EXPECT_TRUE(close(same.grad(), x.grad()));
  for (const auto& item : rough.named_parameters()) {
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat);
    EXPECT_TRUE(close(item.value().grad(), exact.named_parameters()[item.key()].grad()))
        << item.key();
  }
}

}  // namespace
}  // namespace convoy::model
