// Layers of the user's that are divided: what they state, and the check of that.
#include "tests/model/user_layers.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/model/check_partition.h"

namespace convoy::model {
namespace {

using test::message_of;

ModuleList own_list(const Statement& window, const Window& module = Window(4, 6, 7)) {
  ModuleList list("Own", {1, 6, 7});
  list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))
      .add("window", module, window)
      .add("flatten", torch::nn::Flatten())
      .add("square", Square(168), square_statement())
      .add("fc", torch::nn::Linear(168, 3));
  return list;
}

PartitionPlan plan_of(const Blueprint& net, const PartitionRules& rules) {
  PartitionPlan plan = plan_partition(net, net.inputs, rules);
  check_plan(net, plan);
  return plan;
}

const std::vector<PartitionRules> kRules{
    {.partitions = 1},
    {.partitions = 3},
    {.partitions = 8},  // more than rows
    {.partitions = 4, .images = {Division::tiles}},
    {.partitions = 3, .layers = {{"window", {Division::units}}, {"square", {Division::whole}}}},
    {.partitions = 3, .layers = {{"window", {Division::rows, {0, 2, 1}}}}},
    {.partitions = 2, .layers = {{"window", {Division::rows, {0, 1}}}}}};

TEST(UserLayers, AreDividedWithTheirParameters) {
  const Blueprint net = own_list(window_statement()).blueprint();
  for (const PartitionRules& rules : kRules) plan_of(net, rules);
  const PartitionPlan plan = plan_of(net, {.partitions = 3});
  const PartitionedNode &window = plan.nodes[1], &square = plan.nodes[3];
  EXPECT_EQ(window.how, Division::rows);
  EXPECT_EQ(window.required[0][1], (Slice{"conv", {4, 6, 7}, {0, 1, 0}, {4, 4, 7}}));
  EXPECT_EQ(window.tensors[1][0], (Slice{"window.gain", {6, 7}, {2, 0}, {2, 7}}));
  EXPECT_TRUE(window.tensors[1][1].whole());
  EXPECT_TRUE(window.divides(0));
  EXPECT_FALSE(window.divides(1));
  EXPECT_EQ(loads_of(net, plan)[1].summed_parameters, 4 + 40);  // bias and convolution
  EXPECT_EQ(square.how, Division::units);
  EXPECT_EQ(square.tensors[2][0], (Slice{"square.weight", {168}, {112}, {56}}));
  // Who computes nothing has what all have.
  const PartitionPlan two = plan_of(net, kRules[5]);
  EXPECT_EQ(two.nodes[1].tensors[0][0].elements(), 0);
  EXPECT_TRUE(two.nodes[1].tensors[0][1].whole());
}

TEST(UserLayers, WholeWithoutParts) {
  const auto how = [](const Statement& states) {
    ModuleList list("Own", {1, 6, 7});
    list.add("conv", torch::nn::Conv2d(1, 4, 1)).add("gelu", torch::nn::GELU(), states);
    return plan_of(list.blueprint(), {.partitions = 2}).nodes[1].how;
  };
  Statement states{.required = [](const Shape&, const Slice& output) { return output; }};
  EXPECT_EQ(how({}), Division::whole);
  EXPECT_EQ(how(states), Division::whole);
  states.required_tensor = [](const Slice& tensor, const Slice&) { return tensor; };
  EXPECT_EQ(message_of<UsageError>([&] { how(states); }),
            "layer 'gelu' states which parts of its tensors it requires, but its module can't "
            "compute parts: derive torch::nn::GELUImpl from convoy::model::PartModule as well");
}

TEST(UserLayers, PartsOfTensorsTileThem) {
  const auto said = [](auto change, const PartitionRules& rules) {
    Statement states = window_statement();
    states.required_tensor = [change, before = states.required_tensor](const Slice& tensor,
                                                                       const Slice& output) {
      Slice part = before(tensor, output);
      change(part);
      return part;
    };
    return message_of<UsageError>([&] { plan_of(own_list(states).blueprint(), rules); });
  };
  const PartitionRules rows{.partitions = 2};
  EXPECT_EQ(said([](Slice&) {}, rows), "");
  EXPECT_EQ(said(
                [](Slice& part) {
                  if (part.tensor == "gain") --part.size[0];
                },
                rows),
            "layer 'window': divided by 'rows', what it states to require of window.gain [6, 7] "
            "doesn't go: nobody holds window.gain[2:3, :] of [6, 7]; each has to have its own, or "
            "all the whole, or the layer another division");
  const auto all_columns = [](Slice& part) {
    if (part.tensor != "gain") return;
    part.begin[1] = 0;
    part.size[1] = 7;
  };
  EXPECT_EQ(said(all_columns, rows), "");
  EXPECT_NE(said(all_columns, {.partitions = 4, .images = {Division::tiles}}).find("two hold"),
            std::string::npos);
  EXPECT_NE(said([](Slice& part) { part.size[0] = 9; }, rows).find("window.gain"),
            std::string::npos);
  EXPECT_EQ(said([](Slice& part) { part.shape.back() = 1000; }, rows),
            "layer 'window': states a part of [6, 1000] of its 'gain', which is [6, 7]");
}

TEST(CheckParts, FindsNothingWhereAllIsRight) {
  const Blueprint net = own_list(window_statement()).blueprint();
  for (const PartitionRules& rules : kRules)
    EXPECT_TRUE(check_parts(net, plan_of(net, rules)).empty());
}

TEST(CheckParts, NamesTooSmallARegion) {
  for (const int partitions : {1, 2, 3}) {
    const Blueprint net = own_list(window_statement(0)).blueprint();
    const std::string said =
        message_of<UsageError>([&] { check_parts(net, plan_of(net, {.partitions = partitions})); });
    const std::string part = partitions == 1   ? "window[0:1, 0:1, 0:1] of [4, 6, 7]"
                             : partitions == 2 ? "window[:, 0:3, :] of [4, 6, 7]"
                                               : "window[:, 0:2, :] of [4, 6, 7]";
    EXPECT_EQ(said.find("layer 'window': states that " + part + " needs no more than input["), 0U)
        << said;
    EXPECT_NE(said.find("but other elements change it"), std::string::npos) << said;
  }
}

TEST(CheckParts, ReportsTooLargeARegion) {
  const Blueprint net = own_list(window_statement(2)).blueprint();
  EXPECT_TRUE(check_parts(net, plan_of(net, {.partitions = 1})).empty());  // nothing is sent
  const auto found = check_parts(net, plan_of(net, {.partitions = 3}));
  ASSERT_EQ(found.size(), 1U);
  const Overstatement& o = found[0];
  EXPECT_EQ(o.layer, "window");
  EXPECT_EQ(o.value, "conv");
  EXPECT_EQ(o.partition, 0);
  EXPECT_EQ(o.output, (Slice{"window", {4, 6, 7}, {0, 0, 0}, {4, 2, 7}}));
  EXPECT_EQ(o.stated, (Slice{"conv", {4, 6, 7}, {0, 0, 0}, {4, 4, 7}}));
  EXPECT_EQ(o.read, (Slice{"conv", {4, 6, 7}, {0, 0, 0}, {4, 3, 7}}));
  // Two rows across both borders, both ways, of which one is read.
  EXPECT_EQ(o.sent, 4 * 2 * 28);
  EXPECT_EQ(o.unread, 4 * 28);
  // What it states is read by another layer.
  Blueprint both = net;
  both.stages[1].nodes.push_back(
      {"pool", layer::AveragePool{{5, 5}, {1, 1}, {2, 2}}, both.stages[1].inputs, {}});
  both.stages[1].nodes.push_back({"sum", layer::Add(), {"window", "pool"}, {}});
  both.stages[1].outputs = {"sum"};
  EXPECT_TRUE(check_parts(both, plan_of(both, {.partitions = 3})).empty());
}

// Takes counts, which no value drawn at random is.
class CountsImpl : public torch::nn::Cloneable<CountsImpl>, public PartModule {
 public:
  void reset() override {}
  torch::Tensor forward(const torch::Tensor& x) {
    TORCH_CHECK(x.frac().eq(0).all().item<bool>(), "no counts");
    return 2 * x;
  }
  torch::Tensor forward_part(const torch::Tensor& x, const ModulePart&) override {
    return forward(x);
  }
};
TORCH_MODULE(Counts);

TEST(CheckParts, NamesWhatCantBeChecked) {
  ModuleList list("Counted", {8});
  Statement states;
  states.output = [](const Shape& input) { return input; };
  states.required = [](const Shape&, const Slice& output) { return output; };
  list.add("counts", Counts(), states);
  const Blueprint net = list.blueprint();
  const PartitionPlan plan = plan_of(net, {.partitions = 2});
  const std::string expected =
      "layer 'counts' can't be checked, since its module can't take values drawn at random. ";
  EXPECT_EQ(message_of<UsageError>([&] { check_parts(net, plan); }).find(expected), 0U);
  std::vector<std::string> not_checked;
  EXPECT_TRUE(check_parts(net, plan, &not_checked).empty());
  ASSERT_EQ(not_checked.size(), 1U);
  EXPECT_EQ(not_checked[0].find(expected), 0U) << not_checked[0];
}

TEST(CheckParts, NamesWrongParts) {
  Window wrong(4, 6, 7);
  wrong->fault = WindowImpl::Fault::shape;
  const auto of_list = [](const ModuleList& list) {
    return message_of<UsageError>([&] {
      const Blueprint net = list.blueprint();
      check_parts(net, plan_of(net, {.partitions = 2}));
    });
  };
  EXPECT_EQ(of_list(own_list(window_statement(), wrong)),
            "layer 'window', partition 0: forward_part gives [2, 4, 2, 7] for window[:, 0:3, :] of "
            "[4, 6, 7] of 2 samples from conv[:, 0:4, :] of [4, 6, 7], and has to give "
            "[2, 4, 3, 7]");
  // A backward of its own that isn't that of the whole.
  ModuleList list("Own", {8});
  Square square(8);
  square->derivative = 3;
  list.add("fc", torch::nn::Linear(8, 8)).add("square", square, square_statement());
  const std::string said = of_list(list);
  EXPECT_EQ(said.find("layer 'square': forward_part gives its input other gradients than forward "
                      "does"),
            0U)
      << said;
  // Zeros hide nothing, and stay what they are.
  square->derivative = 2;
  Window zeros(4, 6, 7);
  torch::nn::init::zeros_(zeros->gain);
  EXPECT_NE(of_list(own_list(window_statement(0), zeros)).find("layer 'window'"),
            std::string::npos);
  EXPECT_EQ(zeros->gain.abs().max().item<float>(), 0);
  EXPECT_EQ(of_list(list), "");
}

}  // namespace
}  // namespace convoy::model
