// Networks that the ranks of a job hold together, against the whole of each: outputs, gradients,
// bytes and memory, without an engine around them.
#include <gtest/gtest.h>

#include <map>

#include "convoy/train/autocast.h"
#include "model/execution/cut.h"
#include "parallel/tensors.h"
#include "tests/model/allocations.h"
#include "tests/model/made_up_network.h"
#include "tests/parallel/mpi_main.h"
#include "tests/train/plain_networks.h"
#include "train/strategies/partitioned/network.h"
#include "train/strategies/partitioned/value_types.h"

namespace convoy::train {
namespace {

using model::Blueprint;
using model::PartitionRules;
using model::Tensors;
using torch::Tensor;

double relative(const Tensor& got, const Tensor& wanted) {
  if (wanted.numel() == 0) return 0;
  const double largest = std::max(wanted.abs().max().item<double>(), 1e-3);
  return (got - wanted).abs().max().item<double>() / largest;
}

Tensors random_tensors(const std::vector<at::IntArrayRef>& shapes) {
  Tensors all;
  for (const at::IntArrayRef shape : shapes) all.push_back(torch::randn(shape, torch::kDouble));
  return all;
}

// A network of this job, of whose batch rank r has r + 2 rows, but the second one none.
class Shared {
 public:
  Shared(const Blueprint& net, const PartitionRules& rules)
      : all_(test_world().communicator().duplicate()),
        links_(all_),
        network_(net, plan_partition(net, net.inputs, rules), 1, all_.rank()) {
    for (int r = 0; r < all_.size(); ++r) rows_.of.push_back(r == 1 ? 0 : r + 2);
    network_.to(torch::kDouble);
    norm_.communicator = &all_;
    norm_.weight_by_samples = false;
  }

  PartitionedNetwork& network() { return network_; }
  const Rows& rows() const { return rows_; }
  const Links& links() const { return links_; }
  std::vector<at::ScalarType> types(at::ScalarType input) {
    const std::vector<at::ScalarType> inputs(network_.blueprint().inputs.size(), input);
    return value_types(network_, all_, inputs, torch::kCPU);
  }
  PartitionedPass pass(bool overlap) {
    return pass(overlap, {network_.plan().values.size(), torch::kDouble});
  }
  PartitionedPass pass(bool overlap, std::vector<at::ScalarType> types) {
    norm_.next_key = 0;
    return {.links = links_,
            .rows = rows_,
            .types = std::move(types),
            .statistics = {all_.size() > 1 ? &norm_ : nullptr, nullptr},
            .overlap = overlap};
  }
  Tensors own_rows(const Tensors& of_all) const {
    Tensors own;
    for (const Tensor& tensor : of_all)
      own.push_back(tensor.narrow(0, rows_.before(all_.rank()), rows_.of[rank()]));
    return own;
  }
  // Of parameters, by name: those that all ranks have, added up.
  std::map<std::string, Tensor> gradients() {
    std::map<std::string, Tensor> all;
    for (const auto& item : network_.named_parameters()) all[item.key()] = item.value().grad();
    for (auto& [name, gradient] : all) {
      if (network_.parts().contains(name)) continue;
      gradient = gradient.contiguous().clone();
      all_.allreduce(parallel::buffer_of(gradient), comm::ReduceOp::sum);
    }
    return all;
  }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(all_.rank()); }

  comm::Communicator all_;
  Links links_;
  PartitionedNetwork network_;
  Rows rows_;
  parallel::SynchronizedBatchNorm norm_;
};

Tensor weighted_sum(const Tensors& outputs, const Tensors& weights) {
  Tensor sum = torch::zeros({}, torch::kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) sum = sum + (outputs[i] * weights[i]).sum();
  return sum;
}

void expect_as_alone(const Blueprint& net, const PartitionRules& rules, double tolerance = 1e-9) {
  Shared shared(net, rules);
  model::StagedNetwork alone(net, 1);
  alone.to(torch::kDouble);
  torch::manual_seed(7);
  std::vector<model::Shape> shapes = net.inputs;
  for (model::Shape& shape : shapes) shape.insert(shape.begin(), shared.rows().all());
  const Tensors inputs = random_tensors({shapes.begin(), shapes.end()});
  const Tensors expected = alone.run(inputs);
  Tensors weights;
  for (const Tensor& output : expected)
    weights.push_back(torch::randn(output.sizes(), torch::kDouble));
  weighted_sum(expected, weights).backward();
  const auto wanted = alone.named_parameters();
  for (const bool overlap : {true, false}) {
    SCOPED_TRACE(overlap ? "overlapping" : "waiting");
    shared.network().zero_grad();
    PartitionedPass pass = shared.pass(overlap);
    const Tensors outputs = shared.network().run(pass, shared.own_rows(inputs));
    const Tensors own = shared.own_rows(expected);
    ASSERT_EQ(outputs.size(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      ASSERT_EQ(outputs[i].sizes(), own[i].sizes());
      EXPECT_LT(relative(outputs[i].detach(), own[i].detach()), tolerance) << "output " << i;
    }
    end_of_pass(weighted_sum(outputs, shared.own_rows(weights)), pass.tokens(),
                shared.network().idle())
        .backward();
    for (const auto& [name, gradient] : shared.gradients()) {
      const Tensor whole = wanted[name].grad();
      const auto part = shared.network().parts().find(name);
      const Tensor expected_part =
          part == shared.network().parts().end()
              ? whole
              : model::cut(whole, whole_of(name, part->second.shape), part->second);
      EXPECT_LT(relative(gradient, expected_part), tolerance) << name;
    }
  }
}

// What ranks do apart from each other must not keep some of them waiting: all find failures.
bool failed_anywhere() {
  std::vector<double> failed{testing::Test::HasFailure() ? 1.0 : 0.0};
  test_world().communicator().allreduce(comm::buffer_of(failed), comm::ReduceOp::sum);
  return failed[0] > 0;
}

// Where autocast leaves a layer in float32, since bfloat16 is not enough, so is what it sends: a
// part's border would else have no contrast, as bfloat16 has none between 10 and 10.06.
TEST(SharedNetworks, ExchangeEachValueInItsOwnType) {
  using namespace model::layer;
  Blueprint net{"Contrast", {{1, 12, 6}}, {}};
  net.stages.push_back(
      {"image",
       {"x"},
       {plain_node("pool", L2Pool{.kernel = {3, 3}, .stride = {1, 1}}, {"x"}),
        plain_node("norm", LocalContrastNorm{{5, 5}}, {"pool"}),
        plain_node("conv", Convolution{.in = 1, .out = 2, .kernel = {3, 3}}, {"norm"}),
        // One row, so that all partitions but one have nothing.
        plain_node("row", MaxPool{.kernel = {8, 1}, .stride = {8, 1}}, {"conv"}),
        plain_node("last", Sigmoid{}, {"row"})},
       {"norm", "last"}});
  Shared shared(net, {.partitions = test_world().size()});
  shared.network().to(torch::kFloat);
  model::StagedNetwork alone(net, 1);
  const Autocast autocast(true);
  const torch::NoGradGuard no_grad;
  const std::vector<at::ScalarType> types = shared.types(torch::kFloat);
  EXPECT_EQ(types, (std::vector<at::ScalarType>{at::kFloat, at::kFloat, at::kFloat, at::kBFloat16,
                                                at::kBFloat16, at::kBFloat16}));
  torch::manual_seed(7);
  const Tensor images = 10 + 0.05 * torch::rand({shared.rows().all(), 1, 12, 6});
  const Tensors expected = shared.own_rows(alone.run({images}));
  for (const bool overlap : {true, false}) {
    PartitionedPass pass = shared.pass(overlap, types);
    const Tensors outputs = shared.network().run(pass, shared.own_rows({images}));
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(outputs[i].scalar_type(), expected[i].scalar_type()) << i;
    EXPECT_LT(relative(outputs[0], expected[0]), 1e-3) << overlap;
    EXPECT_LT(relative(outputs[1].to(at::kFloat), expected[1].to(at::kFloat)), 0.02) << overlap;
  }
}

TEST(SharedNetworks, MadeUpOnesComputeWhatTheyDoAlone) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::MadeUp made(seed, {.partitions = test_world().size()});
    // Where sigma and c of a contrast normalization are close, rounding errors are amplified.
    expect_as_alone(made.net, made.rules, 1e-7);
    if (failed_anywhere()) break;
  }
}

// Images and vectors come in; what goes out are scores of both, the output of a layer that is read
// by others as well, and an input, passed on by every stage.
Blueprint several_inputs_and_outputs() {
  using namespace model::layer;
  const auto node = plain_node;
  Blueprint net{"Several", {{2, 7, 5}, {6}}, {}};
  net.stages.push_back(
      {"first",
       {"image", "vector"},
       {node("conv", Convolution{.in = 2, .out = 3, .kernel = {3, 3}, .padding = {1, 1}},
             {"image"}),
        node("fc", Linear{.in = 6, .out = 5}, {"vector"})},
       {"conv", "fc", "vector"}});
  net.stages.push_back(
      {"second",
       {"a", "b", "c"},
       {node("relu", Relu{}, {"a"}), node("pool", MaxPool{.kernel = {3, 3}}, {"relu"}),
        node("flatten", Flatten{}, {"pool"}),
        node("scores", Linear{.in = 18, .out = 4}, {"flatten"}), node("sigmoid", Sigmoid{}, {"b"}),
        node("others", Linear{.in = 5, .out = 7}, {"sigmoid"})},
       {"scores", "b", "others", "c", "relu"}});
  return net;
}

TEST(SharedNetworks, HaveSeveralInputsAndOutputs) {
  const int ranks = test_world().size();
  const Blueprint net = several_inputs_and_outputs();
  for (const PartitionRules& rules :
       {PartitionRules{.partitions = ranks},
        PartitionRules{.partitions = ranks, .images = {model::Division::tiles}},
        PartitionRules{.partitions = ranks,
        .layers = {{"fc", {model::Division::whole}},
                   {"conv", {model::Division::units}},
                   {"scores", {model::Division::whole}}}}}) {
    expect_as_alone(net, rules);
    if (failed_anywhere()) break;
  }
}

// Evaluation of inputs that every rank has.
TEST(SharedNetworks, GiveAllOutputsToAll) {
  const Blueprint net = several_inputs_and_outputs();
  Shared shared(net, {.partitions = test_world().size()});
  model::StagedNetwork alone(net, 1);
  alone.to(torch::kDouble);
  torch::manual_seed(7);
  const Tensors inputs = random_tensors({{shared.rows().all(), 2, 7, 5}, {shared.rows().all(), 6}});
  const torch::NoGradGuard no_grad;
  PartitionedPass pass = shared.pass(true);
  const Tensors outputs = shared.network().run_alike(pass, inputs), expected = alone.run(inputs);
  ASSERT_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_LT(relative(outputs[i], expected[i]), 1e-12) << i;
}

// What auxiliary outputs alone need is neither computed nor sent in evaluation.
TEST(SharedNetworks, LeaveAuxiliaryClassifiersOutInEvaluation) {
  const Options options;
  const TaskFacts facts;
  const Blueprint net = auxiliary_network({5, {1, 6, 6}, options, facts, 1});
  Shared shared(net, {.partitions = test_world().size()});
  model::StagedNetwork alone(net, 1);
  alone.to(torch::kDouble);
  alone.eval();
  shared.network().eval();
  torch::manual_seed(7);
  const Tensors inputs = random_tensors({{shared.rows().all(), 1, 6, 6}});
  const torch::NoGradGuard no_grad;
  const Tensors expected = alone.run(inputs), own = shared.own_rows(expected);
  ASSERT_EQ(expected.size(), 1u);
  PartitionedPass pass = shared.pass(true), alike = shared.pass(true);
  const Tensors outputs = shared.network().run(pass, shared.own_rows(inputs));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_LT(relative(outputs[0], own[0]), 1e-12);
  const Tensors of_all = shared.network().run_alike(alike, inputs);
  ASSERT_EQ(of_all.size(), 1u);
  EXPECT_LT(relative(of_all[0], expected[0]), 1e-12);
}

// Counters go on from pass to pass, by what the plan says of each input and value.
TEST(SharedNetworks, CountWhatTheySend) {
  const Blueprint net = several_inputs_and_outputs();
  const int ranks = test_world().size(), me = test_world().rank();
  Shared shared(net, {.partitions = ranks});
  const auto rows = shared.rows().of;
  std::map<std::string, double> expected;  // bytes of a pass that this rank sends
  const model::PartitionPlan& plan = shared.network().plan();
  for (const model::PartitionTraffic& part : traffic_of(plan)) {
    const model::PartitionedValue& value = plan.values[part.value];
    // traffic_of() gives each rank an equal part of the samples.
    const double values = part.values * ranks * 8;
    const auto of = [&](int rank) {
      return static_cast<double>(rows[static_cast<std::size_t>(rank)]);
    };
    const auto all = static_cast<double>(shared.rows().all());
    if (value.input) {
      if (part.from == me) expected["inputs"] += values * of(me);
    } else if (part.output) {
      if (part.from == me) expected["scores"] += values * of(part.to);
      if (part.to == me) expected["gradients of scores"] += values * of(me);
    } else {
      if (part.from == me) expected["activations"] += values / ranks * all;
      if (part.to == me) expected["gradients"] += values / ranks * all;
    }
  }
  for (int passes = 1; passes <= 3; ++passes) {
    PartitionedPass pass = shared.pass(true);
    const Tensors inputs =
        shared.own_rows({torch::randn({shared.rows().all(), 2, 7, 5}, torch::kDouble),
                         torch::randn({shared.rows().all(), 6}, torch::kDouble)});
    Tensor sum = torch::zeros({}, torch::kDouble);
    for (const Tensor& output : shared.network().run(pass, inputs)) sum = sum + output.sum();
    end_of_pass(sum, pass.tokens(), shared.network().idle()).backward();
    for (std::size_t kind = 0; kind < Links::kKinds; ++kind) {
      EXPECT_EQ(static_cast<double>(shared.links().payload(static_cast<Links::Kind>(kind)).sent),
                passes * expected[Links::kNames[kind]])
          << Links::kNames[kind];
    }
  }
}

// While borders travel the rows inside are computed, of local filters that are most of a rank's
// memory: their gradient is there once.
TEST(SharedNetworks, HaveOneGradientOfLocalFilters) {
  using namespace model::layer;
  const int ranks = test_world().size();
  const std::int64_t height = 20 * ranks;
  Blueprint net{"Local", {{4, height, 8}}, {}};
  const LocallyConnected filters{
      .in = 4, .out = 32, .image = {height, 8}, .kernel = {5, 5}, .padding = {2, 2}};
  net.stages.push_back({"s",
                        {"x"},
                        {plain_node("conv", Convolution{.in = 4, .out = 4}, {"x"}),
                         plain_node("local", filters, {"conv"})},
                        {"local"}});
  Shared shared(net, {.partitions = ranks});
  const Tensors inputs =
      shared.own_rows({torch::randn({shared.rows().all(), 4, height, 8}, torch::kDouble)});
  const auto held =
      static_cast<double>(shared.network().named_parameters()["local.weight"].nbytes());
  // What is forecast of a step, before anything is made.
  const model::PartitionPlan& plan = shared.network().plan();
  const int me = test_world().rank();
  const model::PartitionLoad load = loads_of(net, plan)[static_cast<std::size_t>(me)];
  const std::int64_t samples = shared.rows().all();
  const double forecast =
      8 * (static_cast<double>(load.parameters) +
           static_cast<double>(samples) * (load.activation_values + load.message_values)) +
      local_copies(net, plan, me, samples, 8);
  for (const bool overlap : {false, true}) {
    PartitionedPass pass = shared.pass(overlap);
    const auto seen = model::allocations_of([&] {
      const Tensor sum = shared.network().run_parts(pass, inputs).front().sum();
      end_of_pass(sum, pass.tokens(), shared.network().idle()).backward();
    });
    EXPECT_GT(static_cast<double>(seen.peak), held);
    EXPECT_LT(static_cast<double>(seen.peak), 2 * held) << overlap;
    EXPECT_NEAR(static_cast<double>(seen.peak), forecast, 0.1 * forecast) << overlap;
    shared.network().zero_grad(/*set_to_none=*/true);
  }
}

}  // namespace
}  // namespace convoy::train
