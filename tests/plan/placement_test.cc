// Times of layers, the list of placements, and what was measured of them as TOML.
#include "convoy/plan/placement.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "plan/layer_time.h"
#include "tests/base/scratch.h"
#include "tests/plan/three_layers.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::test::message_of;

TEST(LayerTime, IsInterpolatedOverSamplesAndInProportionToUnits) {
  LayerCost layer{.name = "fc", .units = 8};
  EXPECT_EQ(pass_seconds(layer, 4, 0).forward, 0);
  layer.times = {{4, 0, 1, 3}, {8, 0, 2, 5}, {4, 2, 0.5, 0.25}};
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 4, 0).forward, 1);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 6, 8).backward, 4);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 2, 8).backward, 2) << "a part of 1 is for any samples";
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 16, 8).backward, 9);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 16, 0).forward, 4);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 4, 2).forward, 0.5) << "as measured";
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 8, 1).backward, 0.25) << "half of them, twice the samples";
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 4, 5).forward, 5.0 / 8) << "nearer to all";
}

TEST(LayerTime, NeitherAFixedPartNorSamplesTakeLessThanNothing) {
  LayerCost layer{.name = "fc", .units = 8};
  // Measured as if each sample more cost more than the ones before, or less than nothing.
  layer.times = {{4, 0, 1, 3}, {8, 0, 4, 2}};
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 2, 0).forward, 0.5);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 16, 0).forward, 8);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 2, 0).backward, 3);
  EXPECT_DOUBLE_EQ(pass_seconds(layer, 16, 0).backward, 2);
}

TEST(Placements, AreAllThatDivideTheWorld) {
  std::vector<std::string> names;
  for (const Placement& placement : placements(network(), 4))
    names.push_back(name_of(placement, 4));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "sync", "model parallelism", "hybrid a, 1 x 4", "hybrid b, 1 x 4",
                       "hybrid bc 2, 1 x 4", "hybrid c, 1 x 4", "hybrid c in 2, 1 x 4",
                       "hybrid a, 2 x 2", "hybrid b, 2 x 2", "hybrid c, 2 x 2"}));
  // Each rank needs a unit of each layer: fc2 has four.
  for (const Placement& placement : placements(network(), 8)) EXPECT_LE(placement.partitions, 4);
  for (const Placement& placement : placements(network(), 4, true)) {
    if (placement.kind == Parallelism::hybrid) EXPECT_GT(placement.senders, 0);
  }
  TrainingCost convolutions = network();
  convolutions.head = 3;
  EXPECT_EQ(placements(convolutions, 4).size(), 2u);
  EXPECT_EQ(placements(network(), 1).size(), 1u);
}

TEST(Placements, TheSoonestThatFitsIsChosen) {
  std::vector<StepForecast> all(4);
  all[0].placement = {Parallelism::model};
  all[0].step_s = 1;
  all[1].step_s = 4;
  all[1].memory_bytes = 10;
  all[2].step_s = 2;
  all[2].memory_bytes = 30;
  all[3].step_s = 3;
  all[3].memory_bytes = 20;
  EXPECT_EQ(best_placement(all), 2u) << "model parallelism can't be trained";
  EXPECT_EQ(best_placement(all, 25), 3u);
  EXPECT_EQ(best_placement(all, 10), 1u);
  EXPECT_NE(message_of<UsageError>([&] {
              best_placement(all, 5);
            }).find("no placement takes as little memory as 5 B on each rank, the least is 10 B"),
            std::string::npos);
}

TEST(Placements, RefuseWhatCantBe) {
  EXPECT_NE(message_of<UsageError>([] {
              step({Parallelism::hybrid, 3, 0}, 4);
            }).find("groups of 3 don't"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([] {
              step({Parallelism::hybrid, 2, 3}, 4);
            }).find("3 senders"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([] {
              step({Parallelism::hybrid, 2, 1, false, 2}, 4);
            }).find("2 passes of scheme b: other numbers than it has are for c"),
            std::string::npos);
  EXPECT_THROW(step({Parallelism::hybrid, 2, 2, false, -1}, 4), UsageError);
  EXPECT_THROW(forecast(network(), {}, {}, 2, 4, {}), UsageError) << "no bandwidth";
  EXPECT_DOUBLE_EQ(forecast(network(), {}, {}, 1, 4, {}).step_s, 1.69) << "which one needs none of";
  EXPECT_THROW(forecast(network(), kLinks, {1.5}, 2, 4, {}), UsageError);
  EXPECT_THROW(forecast(network(), kLinks, {0}, 2, 4, {}), UsageError);
  EXPECT_THROW(forecast(network(), kLinks, {}, 2, 0, {}), UsageError);
}

const char* const kFile = R"(source = "given"
[compute]
seconds_per_sample = 0.1
processor_share = 0.5
[communication]
kind = "ring"
gradient_bytes = 1.3e6
bandwidth_bytes_per_s = 1e6
latency_s = 1e-3
[placement]
model = "net"
update_s_per_byte = 1e-7
exchange_bandwidth_bytes_per_s = 2e6
processor_period_s = 0.1
process_bytes = 3e8
loss = [{samples = 4, forward_s = 0.01, backward_s = 0.02}]
[[placement.layers]]
name = "conv"
times = [{samples = 4, forward_s = 0.4, backward_s = 0.8}]
[[placement.layers]]
name = "fc1"
times = [{samples = 4, units = 8, forward_s = 0.08, backward_s = 0.16},
         {samples = 8, units = 4, forward_s = 0.07, backward_s = 0.15}]
[[placement.layers]]
name = "fc2"
times = [{samples = 4, forward_s = 0.04, backward_s = 0.08}]
)";

TEST(MeasuredPlacement, IsReadAndWritten) {
  const MeasuredPlacement measured = measured_placement_of_toml(kFile, "folder/m.toml");
  EXPECT_EQ(measured.machine.processor_share, 0.5);
  EXPECT_EQ(measured.network, (Network{.bandwidth_bytes_per_s = 1e6,
                                       .latency_s = 1e-3,
                                       .exchange_bandwidth_bytes_per_s = 2e6}));
  ASSERT_EQ(measured.layers.size(), 3u);
  EXPECT_EQ(measured.layers[1].times[1], (PassTime{8, 4, 0.07, 0.15}));
  const std::string text = to_toml(measured);
  const MeasuredPlacement again = measured_placement_of_toml(text);
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.layers, measured.layers);
  EXPECT_EQ(again.network, measured.network);
  EXPECT_EQ(again.loss, (std::vector<PassTime>{{4, 0, 0.01, 0.02}}));
  EXPECT_EQ(again.process_bytes, 3e8);
  EXPECT_EQ(again.processor().share, 0.5);
  EXPECT_EQ(again.processor().period_s, 0.1);
  // What others read of it is what it was.
  EXPECT_EQ(machine_of_toml(text), measured.machine);

  TrainingCost cost = network();
  for (LayerCost& layer : cost.layers) layer.times.clear();
  add_times(cost, "net", measured);
  EXPECT_EQ(cost.layers[1].times, measured.layers[1].times);
  EXPECT_DOUBLE_EQ(forecast(cost, measured.network, measured.processor(), 1, 4, {}).step_s,
                   2 * (1.69 + 0.03));
  EXPECT_NE(
      message_of<UsageError>([&] { add_times(cost, "other", measured); }).find("not of 'other'"),
      std::string::npos);
  cost.layers[0].name = "conv2";
  EXPECT_NE(message_of<UsageError>([&] {
              add_times(cost, "net", measured);
            }).find("no time of the layer 'conv2'"),
            std::string::npos);
}

// An update of M samples takes t + gamma M: the optimizer's part is in t, whatever M is.
TEST(MeasuredPlacement, HasAnUpdateOfOneWorkerAsAFixedPartAndThatOfASample) {
  MeasuredPlacement measured;
  measured.update_s_per_byte = 1e-9;
  measured.layers = {{"conv",
                      {{16, 0, 0.04, 0.08},
                       {4, 0, 0.013, 0.026}}},  // 3 ms + 7.3 ms M
                                                // Parts of the layer are no times of all of it.
                     {"fc", {{16, 8, 0.01, 0.02}, {4, 8, 0.0025, 0.005}, {16, 4, 1, 1}}},
                     {"relu", {{16, 0, 0.001, 0.001}, {4, 0, 0.002, 0.001}}}};  // nothing rises
  measured.loss = {{16, 0, 0.0008, 0.0008}};
  set_update_times(measured, 1e6);
  const Machine& machine = measured.machine;
  const double conv = (0.12 - 0.039) / 12, fc = 0.03 / 16, loss = 0.0016 / 16;
  EXPECT_DOUBLE_EQ(machine.seconds_per_sample, conv + fc + loss);
  EXPECT_NEAR(machine.overhead_s, 1e-3 + (0.12 - 16 * conv) + 0.002, 1e-12);
  EXPECT_EQ(machine.knee_samples, 1);
  EXPECT_NEAR(compute_seconds(machine, 16), 0.12 + 0.03 + 0.002 + 0.0016 + 1e-3, 1e-12);
  // Where times are those of chance, there is a gamma all the same.
  measured.layers = {measured.layers[2]};
  measured.loss.clear();
  set_update_times(measured, 1e6);
  EXPECT_DOUBLE_EQ(measured.machine.seconds_per_sample, 0.002 / 16);
  EXPECT_DOUBLE_EQ(measured.machine.overhead_s, 1e-3);
}

TEST(MeasuredPlacement, SaysWhatIsWrong) {
  const auto complaint = [](std::string from, const std::string& to) {
    std::string text = kFile;
    const std::size_t at = text.find(from);
    text.replace(at, from.size(), to);
    return message_of<UsageError>([&] { measured_placement_of_toml(text, "folder/m.toml"); });
  };
  EXPECT_EQ(
      complaint("update_s_per_byte", "update_per_byte"),
      "m.toml:12: unknown key 'placement.update_per_byte'; did you mean 'update_s_per_byte'?");
  EXPECT_EQ(complaint("samples = 4, forward_s = 0.4", "samples = 0, forward_s = 0.4"),
            "m.toml: placement.layers 'conv': samples is 0; it must be an integer of 1 or more");
  EXPECT_EQ(complaint("name = \"fc2\"", "name = \"conv\""),
            "m.toml: placement.layers 'conv': is there twice");
  EXPECT_EQ(complaint("times = [{samples = 4, forward_s = 0.04, backward_s = 0.08}]\n", ""),
            "m.toml: placement.layers 'fc2': times are missing");
  EXPECT_EQ(complaint("loss = [{samples = 4", "loss = [{samples = 0"),
            "m.toml: placement.loss: samples is 0; it must be an integer of 1 or more");
  EXPECT_NE(message_of<UsageError>([] {
              network_of(Machine{});
            }).find("communication.bandwidth_bytes_per_s"),
            std::string::npos);
  EXPECT_TRUE(measured_placement_of_toml("[compute]\nseconds_per_sample = 1\n").layers.empty());
}

}  // namespace
