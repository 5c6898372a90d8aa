// First weights and masks from counters; see tests/golden/make_randomness.py.
#include "convoy/model/randomness.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/factory.h"
#include "model/randomness/normal.h"
#include "tests/golden/read.h"

namespace convoy::model {
namespace {

using Rule = FirstValues::Rule;

std::uint64_t checksum(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const float value : values) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  }
  return hash;
}

TEST(Fill, GivesTheSameBitsAsPython) {
  for (const auto& golden : convoy::golden::read("randomness.json")["fill"]) {
    const std::string name = golden["name"];
    const FirstValues rule{golden["rule"] == "normal" ? Rule::normal : Rule::uniform,
                           golden["scale"]};
    const auto seed = golden["seed"].get<std::uint64_t>();
    std::vector<float> values(20000);
    fill(name, rule, seed, 0, values);
    const auto first = golden["first"].get<std::vector<float>>();
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(values[i], first[i],
                  1e-7 * golden["scale"].get<double>() + 2e-7 * std::abs(first[i]));
    EXPECT_EQ(std::to_string(checksum(values)), golden["checksum"].get<std::string>()) << name;
    for (const auto& far : golden["far"]) {
      std::vector<float> one(1);
      fill(name, rule, seed, far["place"], one);
      EXPECT_EQ(one[0], far["value"].get<float>()) << name;
    }
  }
}

TEST(Quantiles, AreExactInTheTails) {
  const QuantileTable table;
  for (const auto& row : convoy::golden::read("randomness.json")["quantiles"]) {
    const double p = row["p"], z = row["z"];
    EXPECT_NEAR(upper_quantile(p), z, 1e-14 * z) << p;
    EXPECT_NEAR(table(p), z, 2e-8 * std::max(1.0, z)) << p;
  }
}

// What a rank that holds a part computes is what the whole has there.
TEST(Fill, OfAPartIsThatPartOfTheWhole) {
  const Shape shape{7, 5, 3, 2};
  for (const Rule rule : {Rule::uniform, Rule::normal, Rule::ones}) {
    std::vector<float> whole(210);
    fill(whole_of("w", shape), {rule, 0.3}, 5, whole);
    const auto tensor = torch::tensor(whole).reshape(shape);
    for (const Slice& part : {Slice{"w", shape, {2, 0, 0, 0}, {3, 5, 3, 2}},
                              Slice{"w", shape, {0, 1, 0, 0}, {7, 3, 3, 2}},
                              Slice{"w", shape, {6, 4, 1, 1}, {1, 1, 2, 1}},
                              Slice{"w", shape, {0, 0, 0, 0}, {7, 5, 0, 2}}}) {
      std::vector<float> values(static_cast<std::size_t>(part.elements()));
      fill(part, {rule, 0.3}, 5, values);
      torch::Tensor wanted = tensor;
      for (std::size_t d = 0; d < shape.size(); ++d)
        wanted = wanted.narrow(static_cast<std::int64_t>(d), part.begin[d], part.size[d]);
      EXPECT_TRUE(torch::tensor(values).equal(wanted.flatten())) << part.text();
    }
  }
  std::vector<float> few(3);
  EXPECT_THROW(fill(whole_of("w", shape), {Rule::uniform, 1}, 1, few), UsageError);
}

TEST(Fill, DependsOnSeedNameAndPlace) {
  const auto values = [](std::uint64_t seed, const char* name, std::int64_t begin) {
    std::vector<float> all(100);
    fill(name, {Rule::normal, 1}, seed, begin, all);
    return all;
  };
  const auto usual = values(1, "a", 0);
  EXPECT_EQ(values(1, "a", 0), usual);
  EXPECT_NE(values(2, "a", 0), usual);
  EXPECT_NE(values(1, "b", 0), usual);
  EXPECT_EQ(values(1, "a", 1)[0], usual[1]);
}

// Mean, variance and the largest value, of as many numbers as a layer has. For n numbers the mean
// of normal ones is off by 1/sqrt(n), their variance by sqrt(2/n): five times that is allowed.
TEST(Fill, HasTheDistributions) {
  constexpr std::size_t kCount = 1 << 20;
  const double root = std::sqrt(static_cast<double>(kCount));
  std::vector<float> values(kCount);
  fill("normal", {Rule::normal, 2}, 3, 0, values);
  auto tensor = torch::tensor(values).to(torch::kDouble) / 2;
  EXPECT_NEAR(tensor.mean().item<double>(), 0, 5 / root);
  EXPECT_NEAR(tensor.square().mean().item<double>(), 1, 5 * std::sqrt(2) / root);
  EXPECT_NEAR(tensor.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96) / root);
  EXPECT_NEAR(tensor.abs().gt(1.959964).to(torch::kDouble).mean().item<double>(), 0.05,
              5 * std::sqrt(0.05 * 0.95) / root);
  fill("uniform", {Rule::uniform, 3}, 3, 0, values);
  tensor = torch::tensor(values).to(torch::kDouble) / 3;
  EXPECT_NEAR(tensor.mean().item<double>(), 0, 5 / root);
  EXPECT_NEAR(tensor.square().mean().item<double>(), 1.0 / 3, 5 * 0.3 / root);
  EXPECT_LE(tensor.abs().max().item<double>(), 1);
  EXPECT_GT(tensor.abs().max().item<double>(), 0.9999);
}

// LibTorch's and Kaiming's rules, on the networks themselves.
TEST(Initialize, FollowsTorchvisionsRules) {
  const auto deviation = [](const torch::Tensor& t) { return t.std().item<double>(); };
  const auto alexnet = make_model("alexnet", {.hidden = 512}, 1)->named_parameters();
  EXPECT_NEAR(deviation(alexnet["features.3.weight"]), 1 / std::sqrt(3.0 * 64 * 25), 2e-4);
  EXPECT_NEAR(alexnet["classifier.1.bias"].abs().max().item<double>(), 1 / std::sqrt(9216.0), 1e-3);
  const auto resnet = make_model("resnet18", {}, 1)->named_parameters();
  EXPECT_NEAR(deviation(resnet["layer2.0.conv1.weight"]), std::sqrt(2.0 / (128 * 9)), 2e-4);
  EXPECT_NEAR(deviation(resnet["fc.weight"]), 1 / std::sqrt(3.0 * 512), 2e-4);
}

// Whatever the network's type and layout are, and whatever was in it.
TEST(Initialize, WritesEveryTypeAndLayout) {
  const auto wanted = make_model("resnet18", {.classes = 3}, 5);
  const auto other = make_model("resnet18", {.classes = 3}, 6);
  other->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : other->parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  for (auto& buffer : other->buffers()) buffer.fill_(9);
  initialize(*other, 5);
  for (const auto& item : wanted->named_parameters())
    EXPECT_TRUE(other->named_parameters()[item.key()].equal(item.value().to(torch::kDouble)));
  for (const auto& item : wanted->named_buffers()) {
    const auto mine = other->named_buffers()[item.key()];
    EXPECT_TRUE(mine.equal(item.value().to(mine.scalar_type()))) << item.key();
  }
}

TEST(DropoutMask, IsPythons) {
  for (const auto& golden : convoy::golden::read("randomness.json")["masks"]) {
    const std::string kept = golden["kept"], layer = golden["layer"];
    const auto row = DropoutMask(golden["seed"], golden["step"], layer, golden["probability"])
                         .of_sample(golden["sample"]);
    for (std::size_t u = 0; u < kept.size(); ++u) EXPECT_EQ(row.keeps(u), kept[u] == '1') << u;
  }
}

std::vector<std::size_t> numbers(std::size_t begin, std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

torch::Tensor dropped(Dropout& layer, const torch::Tensor& x, const std::vector<std::size_t>& ids,
                      std::uint64_t step = 4) {
  const RandomScope scope(3, step, ids);
  return layer(x);
}

// Of rows of any batch, in any order, in parts of a batch, and in any layout.
TEST(Dropout, OfASampleIsItsOwn) {
  Dropout layer(0.5, "classifier.0");
  const auto ids = numbers(40, 12);
  const auto x = torch::rand({12, 3, 5, 7}) + 0.5;
  const auto whole = dropped(layer, x, ids);
  EXPECT_TRUE(dropped(layer, x, ids).equal(whole));
  EXPECT_FALSE(dropped(layer, x, ids, 5).equal(whole));
  Dropout other(0.5, "classifier.3");
  EXPECT_FALSE(dropped(other, x, ids).equal(whole));
  EXPECT_FALSE(dropped(layer, x, numbers(41, 12)).equal(whole));
  // Each of two ranks, and a batch in another order.
  for (const std::int64_t begin : {0, 5}) {
    const std::int64_t count = begin == 0 ? 5 : 7;
    const auto part =
        dropped(layer, x.narrow(0, begin, count),
                numbers(static_cast<std::size_t>(40 + begin), static_cast<std::size_t>(count)));
    EXPECT_TRUE(part.equal(whole.narrow(0, begin, count)));
  }
  const std::vector<std::size_t> reversed(ids.rbegin(), ids.rend());
  EXPECT_TRUE(dropped(layer, x.flip(0), reversed).flip(0).equal(whole));
  const auto last = dropped(layer, x.contiguous(at::MemoryFormat::ChannelsLast), ids);
  EXPECT_TRUE(last.equal(whole));
  EXPECT_TRUE(last.is_contiguous(at::MemoryFormat::ChannelsLast));
  // Kept units are divided by what is kept of them on average, in double as well.
  const auto wide = dropped(layer, x.to(torch::kDouble), ids);
  EXPECT_TRUE(((wide == 0) == (whole == 0)).all().item<bool>());
  EXPECT_TRUE((wide == 0).logical_or(wide == x.to(torch::kDouble) * 2).all().item<bool>());
}

TEST(Dropout, DropsItsPartOfTheUnits) {
  for (const double p : {0.1, 0.5, 0.9}) {
    Dropout layer(p, "a");
    auto x = torch::ones({64, 4096}, torch::requires_grad());
    const auto ids = numbers(0, 64);
    const auto y = dropped(layer, x, ids);
    const double kept = (y != 0).to(torch::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 1 - p, 5 * std::sqrt(p * (1 - p) / (64 * 4096)));
    y.sum().backward();
    EXPECT_TRUE(x.grad().equal(y.detach()));
  }
}

// Ranks that hold a part of the units of every sample.
TEST(Dropout, OfAPartIsThatPartOfTheWhole) {
  const auto ids = numbers(7, 4);
  const auto x = torch::rand({4, 6, 5}) + 0.5;
  Dropout whole(0.5, "fc");
  const auto wanted = dropped(whole, x, ids);
  for (const Slice& part :
       {Slice{"fc", {6, 5}, {2, 0}, {3, 5}}, Slice{"fc", {6, 5}, {1, 2}, {4, 2}}}) {
    Dropout layer(0.5, "fc");
    layer->set_part(part);
    const auto mine =
        x.narrow(1, part.begin[0], part.size[0]).narrow(2, part.begin[1], part.size[1]);
    EXPECT_TRUE(dropped(layer, mine, ids)
                    .equal(wanted.narrow(1, part.begin[0], part.size[0])
                               .narrow(2, part.begin[1], part.size[1])));
    EXPECT_THROW(dropped(layer, x, ids), UsageError);
  }
}

TEST(Dropout, OutsideOfAScopeIsLibTorchs) {
  Dropout layer(0.5);
  const auto x = torch::rand({3, 100});
  torch::manual_seed(2);
  const auto mine = layer(x);
  torch::manual_seed(2);
  EXPECT_TRUE(mine.equal(torch::dropout(x, 0.5, true)));
  layer->eval();
  EXPECT_TRUE(layer(x).equal(x));
}

TEST(Dropout, SaysWhatItLacks) {
  Dropout unnamed(0.5);
  const auto x = torch::rand({3, 10});
  const auto message = [&](Dropout& layer, const std::vector<std::size_t>& ids) {
    try {
      dropped(layer, x, ids);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(unnamed, numbers(0, 3)).find("name_layers"), std::string::npos);
  Dropout layer(0.5, "a.b");
  EXPECT_EQ(message(layer, numbers(0, 2)), "layer 'a.b' gets 3 rows for 2 samples");
  EXPECT_EQ(message(layer, {}), "layer 'a.b' gets 3 rows for 0 samples");
  EXPECT_EQ(message(layer, numbers(0, 1)), "");  // three rows of one sample
  EXPECT_THROW(Dropout(1.0), UsageError);
  EXPECT_THROW(Dropout(-0.1), UsageError);
  torch::nn::Sequential inner(torch::nn::ReLU(), unnamed);
  torch::nn::Module outer("net");
  outer.register_module("head", inner);
  name_layers(outer);
  EXPECT_EQ(unnamed->layer(), "head.1");
  EXPECT_EQ(message(unnamed, numbers(0, 3)), "");
}

TEST(RandomScope, TheInnermostCounts) {
  EXPECT_EQ(RandomScope::current(), nullptr);
  const auto ids = numbers(0, 2);
  {
    const RandomScope outer(1, 1, ids);
    {
      const RandomScope inner(2, 5, ids);
      EXPECT_EQ(RandomScope::current()->step(), 5u);
    }
    EXPECT_EQ(RandomScope::current(), &outer);
  }
  EXPECT_EQ(RandomScope::current(), nullptr);
}

}  // namespace
}  // namespace convoy::model
