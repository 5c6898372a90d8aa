// Layers that are computed in pieces, as a rank does while borders travel.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
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

// Counts what is allocated, by size.
class AllocatedSizes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    if (bytes > 0) ++counts[bytes];
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::map<std::int64_t, int> counts;
};

// Blocks of other sizes would each be kept for the next step.
TEST(PiecesOfALayer, HaveMemoryOfOneSizeForWhatFiltersSee) {
  const PlannedNetwork planned(local_network(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 1);
  const Slice box = layer.required(layer.output())[0];
  const Tensor x = torch::randn({2, 4, box.size[1], 8}).requires_grad_();
  const auto seen = std::make_shared<AllocatedSizes>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, seen);
    model::GradientInPieces pieces;
    compute_rows(layer, x, box, kInside, &pieces).sum().backward();
  }
  // Of a row of eight positions, whose filters see 4 x 3 x 3 values of each of two samples; 20 rows
  // are this partition's, in pieces of 17, 2 and 1.
  constexpr std::int64_t kRow = 8 * 2 * 36 * 4;
  EXPECT_EQ(seen->counts[20 * kRow], 6);
  EXPECT_EQ(seen->counts[17 * kRow], 0);
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

// Multiplies the first rows of an image, and no others, by a table.
class TopImpl : public torch::nn::Cloneable<TopImpl>, public model::PartModule {
 public:
  static constexpr std::int64_t kRows = 3;
  explicit TopImpl(bool takes_all) : takes_all_(takes_all) { TopImpl::reset(); }
  void reset() override {
    table = register_parameter("table", torch::ones({takes_all_ ? 40 : kRows, 8}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({x.slice(2, 0, kRows) * table.slice(0, 0, kRows), x.slice(2, kRows)}, 2);
  }
  torch::Tensor forward_part(const torch::Tensor& x, const model::ModulePart& part) override {
    const std::int64_t rows =
        std::clamp<std::int64_t>(kRows - part.output.begin[1], 0, part.output.size[1]);
    if (rows == 0) return x * 1;
    const torch::Tensor& own = part.tensors.at("table");
    return torch::cat({x.slice(2, 0, rows) * own.slice(0, 0, rows), x.slice(2, rows)}, 2);
  }
  // Of a table for all rows it takes the output's; of a small one only what it uses.
  model::Statement statement() const {
    model::Statement states;
    states.required = [](const model::Shape&, const Slice& output) { return output; };
    states.required_tensor = [all = takes_all_](const Slice& tensor, const Slice& output) {
      Slice part = tensor;
      for (std::size_t d = 0; d < 2; ++d) {
        part.begin[d] = output.begin[d + 1];
        part.size[d] = output.size[d + 1];
      }
      if (all) return part;
      part.begin[0] = std::min(part.begin[0], kRows);
      part.size[0] = std::min(part.size[0], kRows - part.begin[0]);
      return part;
    };
    return states;
  }
  torch::Tensor table;

 private:
  bool takes_all_;
};
TORCH_MODULE(Top);

// A module may use nothing of what it takes for some of its rows.
TEST(PiecesOfALayer, OfWhichSomeAreNotUsed) {
  for (const bool takes_all : {false, true}) {
    SCOPED_TRACE(takes_all);
    Top top(takes_all);
    model::ModuleList list("Top", {2, 40, 8});
    list.add("top", top, top->statement());
    const PlannedNetwork planned(list.blueprint(), {.partitions = 2});
    const PartLayer layer = planned.layer(0, 0);
    const Slice box = layer.required(layer.output())[0];
    const Tensor x = torch::randn({2, 2, box.size[1], 8}).requires_grad_();
    const auto gradient = [&](const auto& rows, model::GradientInPieces* pieces) {
      compute_rows(layer, x, box, rows, pieces).square().sum().backward();
      return gradients_of(layer).at("table");
    };
    const Tensor expected = gradient(kAtOnce, nullptr);
    ASSERT_EQ(expected.size(0), takes_all ? 20 : 3);
    for (int pass = 0; pass < 2; ++pass) {
      model::GradientInPieces pieces;
      const Tensor got = gradient(kInside, &pieces);
      ASSERT_TRUE(got.defined());
      EXPECT_LT((got - expected).abs().max().item<double>(), 1e-4);
      EXPECT_EQ(pieces.unfinished(), "");
    }
  }
}

// Pieces that something depends on which backward doesn't reach.
TEST(PiecesOfALayer, ThatBackwardDoesNotReachAreNamed) {
  Top top(/*takes_all=*/true);
  model::ModuleList list("Top", {2, 40, 8});
  list.add("top", top, top->statement());
  const PlannedNetwork planned(list.blueprint(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 0);
  const Slice box = layer.required(layer.output())[0];
  model::GradientInPieces pieces;
  const auto rows = [&](std::int64_t begin, std::int64_t size) {
    return compute_rows(layer, torch::ones({2, 2, box.size[1], 8}), box, {{begin, size}}, &pieces);
  };
  const Tensor kept = rows(0, 1);
  rows(1, 19).sum().backward();
  EXPECT_EQ(pieces.unfinished(), "top.table");
}

class DoublingImpl : public torch::nn::Cloneable<DoublingImpl>, public model::PartModule {
 public:
  void reset() override {}
  torch::Tensor forward(torch::Tensor x) { return x.mul_(2); }
  torch::Tensor forward_part(const torch::Tensor& x, const model::ModulePart&) override {
    return forward(x);
  }
};
TORCH_MODULE(Doubling);

// Others are on their way with it.
TEST(PiecesOfALayer, LeaveTheirInputAlone) {
  model::ModuleList list("Doubling", {2, 40, 8});
  model::Statement states;
  states.required = [](const model::Shape&, const Slice& output) { return output; };
  list.add("doubling", Doubling(), states);
  const PlannedNetwork planned(list.blueprint(), {.partitions = 2});
  const PartLayer layer = planned.layer(0, 1);
  const Slice box = layer.required(layer.output())[0];
  model::GradientInPieces pieces;
  const auto compute = [&] {
    compute_rows(layer, torch::ones({2, 2, box.size[1], 8}), box, kInside, &pieces);
  };
  EXPECT_EQ(test::message_of<UsageError>(compute),
            "layer 'doubling', partition 1: forward_part changes what it is given, which other "
            "pieces read as well, and is sent: let it make another tensor, or set "
            "partitioned.overlap = false");
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
