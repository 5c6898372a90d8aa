// Steps of placements, worked out by hand.
#include "convoy/plan/placement.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "plan/layer_time.h"
#include "tests/base/scratch.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::test::message_of;

// Four samples take 0.4 s and 0.8 s in the convolution, 0.08 and 0.16, and 0.04 and 0.08 in the two
// fully connected layers.
TrainingCost network() {
  TrainingCost cost;
  cost.layers = {{.name = "conv",
                  .units = 10,
                  .gradients = {{1e5}},
                  .output_values = 1e4,
                  .gathered = true,
                  .activation_bytes = 100,
                  .times = {{4, 0, 0.4, 0.8}}},
                 {.name = "fc1",
                  .units = 8,
                  .gradients = {{8e5}},
                  .output_values = 5e3,
                  .gathered = true,
                  .activation_bytes = 10,
                  .times = {{4, 0, 0.08, 0.16}}},
                 {.name = "fc2",
                  .units = 4,
                  .gradients = {{4e5}},
                  .output_values = 2.5e3,
                  .gathered = true,
                  .activation_bytes = 1,
                  .times = {{4, 0, 0.04, 0.08}}}};
  cost.head = 1;
  cost.boundary_values = 1e4;
  cost.update_s_per_byte = 1e-7;
  return cost;
}

constexpr Network kLinks{.bandwidth_bytes_per_s = 1e6};
// What ranks tell each other at the start of a step.
double agreed(int rounds) { return 8e-6 * rounds; }

StepForecast step(const Placement& placement, int world, const TrainingCost& cost = network()) {
  return forecast(cost, kLinks, {}, world, 4, placement);
}

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

TEST(Forecast, OneRankComputes) {
  const StepForecast one = step({Parallelism::data}, 1);
  EXPECT_DOUBLE_EQ(one.step_s, 0.52 + 1.04 + 0.13);
  EXPECT_EQ(one.exposed_s, 0);
  EXPECT_EQ(one.sent_bytes, 0);
  EXPECT_EQ(one.hidden(), 1);
  EXPECT_DOUBLE_EQ(one.parameter_bytes, 1.3e6);
  EXPECT_DOUBLE_EQ(one.memory_bytes, 3 * 1.3e6 + 4 * 111);
}

TEST(Forecast, DataParallelismAddsGradientsUpInBuckets) {
  // fc2's gradients fill the first bucket, those of fc1 and conv the second.
  const StepForecast two = step({Parallelism::data}, 2);
  EXPECT_NEAR(two.step_s, agreed(1) + 0.52 + 1.04 + 0.9 + 0.13, 1e-12);
  EXPECT_NEAR(two.exposed_s, agreed(1) + 0.9, 1e-12);
  EXPECT_NEAR(two.communication_s, agreed(1) + 0.4 + 0.9, 1e-12);
  EXPECT_NEAR(two.hidden(), 0.4 / 1.3, 1e-4);
  EXPECT_NEAR(two.sent_bytes, 8 + 1.3e6, 1e-6);
  EXPECT_DOUBLE_EQ(two.compute_s, 1.69);
  // A ring of four: 1.5 times the bytes.
  const StepForecast four = step({Parallelism::data}, 4);
  EXPECT_NEAR(four.sent_bytes, 16 + 1.5 * 1.3e6, 1e-6);
  EXPECT_NEAR(four.step_s, agreed(2) + 0.52 + 1.04 + 1.35 + 0.13, 1e-12);
}

TEST(Forecast, CopiesAndBucketsCount) {
  TrainingCost cost = network();
  cost.copy_s_per_byte = 1e-6;
  cost.layers[1].gradients[0].in_place = true;
  cost.first_bucket_bytes = 8 << 20;
  // One bucket, started at the end of backward.
  const StepForecast two = step({Parallelism::data}, 2, cost);
  EXPECT_NEAR(two.step_s, agreed(1) + 0.52 + 1.04 + 0.4 + 0.1 + 1.3 + 0.13, 1e-12);
}

TEST(Forecast, ModelParallelismGathersWhatIsDivided) {
  // Eight samples on half of the units take as long as four on all.
  const StepForecast two = step({Parallelism::model}, 2);
  EXPECT_NEAR(two.step_s, agreed(1) + 0.52 + 1.04 + 2 * (0.16 + 0.08 + 0.04) + 0.065, 1e-12);
  EXPECT_DOUBLE_EQ(two.parameter_bytes, 6.5e5);
  EXPECT_NEAR(two.sent_bytes, 8 + 2 * 2.8e5, 1e-6);
}

TEST(Forecast, SchemeAHidesNothing) {
  // 0.16 s for activations and as long for gradients; 0.08 between the layers, 0.02 for scores.
  const StepForecast a = step({Parallelism::hybrid, 2, 0}, 2);
  const double exchanged = 2 * (0.16 + 0.08 + 0.02);
  EXPECT_NEAR(a.step_s, agreed(1) + 1.2 + 0.36 + exchanged + 0.1 + 0.07, 1e-12);
  EXPECT_NEAR(a.exposed_s, agreed(1) + exchanged + 0.1, 1e-12);
  EXPECT_NEAR(a.hidden(), 0, 1e-12);
}

TEST(Forecast, SchemeCExchangesWhilePassesCompute) {
  // Activations of pass 0 take 0.08 s. Those of pass 1 travel while pass 0 computes for 0.04 s, and
  // then have half of the link, beside what goes on between the layers: 0.08 s for both. So it is
  // with the gradients of pass 0 in pass 1. Scores take 0.01 s, and their gradients.
  const StepForecast c = step({Parallelism::hybrid, 2, 2}, 2);
  const double pass = 0.08 + 0.01 + 0.01 + 0.04;  // waiting
  EXPECT_NEAR(c.exposed_s, agreed(1) + 0.08 + 2 * pass + 0.08 + 0.1, 1e-12);
  EXPECT_NEAR(c.step_s, agreed(1) + 2.17, 1e-12);
  EXPECT_NEAR(c.compute_s, 1.63, 1e-12);
  EXPECT_DOUBLE_EQ(c.parameter_bytes, 1e5 + 6e5);
  // As many bytes as in scheme a.
  EXPECT_NEAR(c.sent_bytes, step({Parallelism::hybrid, 2, 0}, 2).sent_bytes, 1e-6);
}

TEST(Forecast, SomeHaveSamplesLessInTheLastPasses) {
  // Three samples on each rank: two in the first pass, one in the second.
  const StepForecast c = forecast(network(), kLinks, {}, 2, 3, {Parallelism::hybrid, 2, 2});
  EXPECT_NEAR(c.compute_s, 0.75 * 1.2 + 0.75 * 0.36 + 0.07, 1e-12);
  // One: there is one pass, and c is a.
  EXPECT_NEAR(forecast(network(), kLinks, {}, 2, 1, {Parallelism::hybrid, 2, 2}).step_s,
              forecast(network(), kLinks, {}, 2, 1, {Parallelism::hybrid, 2, 0}).step_s, 1e-12);
}

TEST(Forecast, OneSenderAtATimeIsSlower) {
  // Each pass has the samples of one rank: twice the bytes on its link, which no other helps with.
  // Activations of pass 1 share that of rank 1 with what goes on between the layers, 0.08 s for it,
  // and with the scores for rank 0, 0.04 s; their gradients come on the other way. So it is with
  // the gradients of pass 0 in pass 1, but that it is the gradients of scores that they share it
  // with.
  const double pass = 0.08 + 0.04 + 0.02 + 0.04;  // waiting
  EXPECT_NEAR(step({Parallelism::hybrid, 2, 1}, 2).exposed_s,
              agreed(1) + 0.16 + 2 * pass + 0.16 + 0.1, 1e-12);
  EXPECT_NEAR(step({Parallelism::hybrid, 2, 1}, 2).step_s, agreed(1) + 2.41, 1e-12);
  const StepForecast b = step({Parallelism::hybrid, 2, 1}, 2);
  const StepForecast c = step({Parallelism::hybrid, 2, 2}, 2);
  EXPECT_GT(b.step_s, c.step_s);
  EXPECT_NEAR(b.sent_bytes, c.sent_bytes, 1e-6);
  EXPECT_DOUBLE_EQ(b.compute_s, c.compute_s);
  // bc lies between.
  const TrainingCost cost = network();
  const StepForecast bc = step({Parallelism::hybrid, 4, 2}, 4);
  EXPECT_GT(step({Parallelism::hybrid, 4, 1}, 4).step_s, bc.step_s);
  EXPECT_LT(step({Parallelism::hybrid, 4, 4}, 4).step_s, bc.step_s);
}

TEST(Forecast, EveryRankTakesItsTurnToSend) {
  // Nothing is computed. A sample has 1 byte for each other rank at the boundary, so that its rank
  // sends 2 in its pass, and all ranks have 1 for others between the layers, there and back.
  TrainingCost cost;
  cost.layers = {{.name = "conv"},
                 {.name = "fc1", .units = 3, .output_values = 1.5, .gathered = true},
                 {.name = "fc2", .units = 3, .gathered = true}};
  cost.head = 1;
  cost.boundary_values = cost.value_bytes = 1;
  const Network links{.bandwidth_bytes_per_s = 1};
  const StepForecast b = forecast(cost, links, {}, 3, 1, {Parallelism::hybrid, 3, 1});
  // Ranks agree for 16 s. The first activations take 2 s. In pass 0 the second ones halve the link
  // of rank 1: 2 s for each exchange between the layers, and they have come just then. In pass 1
  // the gradients of pass 0 are under way as well, three on the link of rank 2: 3 s. In pass 2 the
  // gradients of pass 1: 2 s. Those of pass 2 take 2 s.
  EXPECT_NEAR(b.step_s, 16 + 2 + 2 * 2 + 2 * 3 + 2 * 2 + 2, 1e-9);
  EXPECT_NEAR(b.sent_bytes, 16 + 2 + 3 * 2 + 2, 1e-9);
  EXPECT_EQ(b.compute_s, 0);
}

TEST(Forecast, AnyRankMaySendMost) {
  // Of three samples in two pieces each of two ranks at a time sends; all have sent as much in the
  // end.
  const double a = step({Parallelism::hybrid, 4, 0}, 4).sent_bytes;
  for (int senders = 1; senders <= 4; ++senders)
    EXPECT_NEAR(step({Parallelism::hybrid, 4, senders}, 4).sent_bytes, a, 1e-6) << senders;
}

TEST(Forecast, HugeWorldsNeedNoMemory) {
  TrainingCost cost;
  cost.layers = {{.name = "conv"}, {.name = "fc", .units = 20000, .output_values = 1}};
  cost.head = 1;
  cost.boundary_values = 1;
  const StepForecast b = forecast(cost, kLinks, {}, 20000, 1, {Parallelism::hybrid, 20000, 1});
  // Ranks agree, each sends its activations to all others, and the last gradients come from all.
  EXPECT_GT(b.step_s, (20000 + 1) * 19999 * 4e-6);
  EXPECT_LT(convoy::peak_memory(), std::uint64_t{1} << 30) << "numbers of each rank in each pass";
}

TEST(Forecast, TheLossIsComputedByTheRankWhoseSamplesItIs) {
  TrainingCost cost = network();
  cost.loss = {{4, 0, 0.01, 0.02}};
  EXPECT_NEAR(step({Parallelism::data}, 1, cost).step_s, 1.69 + 0.03, 1e-12);
  const auto more = [&](int senders) {
    const Placement placement{Parallelism::hybrid, 2, senders};
    return step(placement, 2, cost).compute_s - step(placement, 2).compute_s;
  };
  EXPECT_NEAR(more(0), 0.03, 1e-12);
  EXPECT_NEAR(more(2), 0.03, 1e-12) << "half of them in each pass, on both ranks";
  EXPECT_NEAR(more(1), 0.06, 1e-12) << "one rank after the other";
}

TEST(Forecast, WhatIsExchangedIsPutTogether) {
  TrainingCost cost = network();
  cost.copy_s_per_byte = 1e-6;
  const Placement a{Parallelism::hybrid, 2, 0};
  // conv's gradients into buckets; between the layers 0.16 s forward, and twice as long backward;
  // scores, and their gradients; those of the boundary, from both ranks and into place.
  const double copies = 0.1 + 0.16 + 2 * 0.16 + 2 * 0.04 + 3 * 0.16;
  EXPECT_NEAR(step(a, 2, cost).step_s - step(a, 2).step_s, copies, 1e-12);
  // What was added up in another type is converted back: of fc1's own units, and of own samples.
  cost.sums_converted = true;
  EXPECT_NEAR(step(a, 2, cost).step_s - step(a, 2).step_s, copies + 0.08 + 0.16, 1e-12);
}

TEST(Forecast, SampleNumbersAreToldFirst) {
  TrainingCost cost = network();
  cost.numbers_sent = true;
  const Placement c{Parallelism::hybrid, 2, 2};
  EXPECT_NEAR(step(c, 2, cost).step_s - step(c, 2).step_s, 32e-6, 1e-12);
  EXPECT_NEAR(step(c, 2, cost).sent_bytes - step(c, 2).sent_bytes, 32, 1e-6);
}

TEST(Forecast, GradientsOfAnotherTypeAreConverted) {
  TrainingCost cost = network();
  cost.copy_s_per_byte = 1e-6;
  cost.sent_part = 0.5;
  cost.layers[1].gradients[0].in_place = true;
  // One bucket, half as large; each gradient there, and back.
  const StepForecast two = step({Parallelism::data}, 2, cost);
  EXPECT_NEAR(two.step_s, agreed(1) + 0.52 + 1.04 + 1.3 + 0.65 + 1.3 + 0.13, 1e-12);
  EXPECT_NEAR(two.memory_bytes, 3 * 1.3e6 + 0.65e6 + 4 * 111, 1e-6);
}

TEST(Forecast, MemoryIsOfTheProcessAndOfWhatIsExchanged) {
  TrainingCost cost = network();
  cost.process_bytes = 1e8;
  EXPECT_NEAR(step({Parallelism::data}, 1, cost).memory_bytes, 1e8 + 3 * 1.3e6 + 444, 1e-6);
  // Of 8 samples: what each divided layer needs of the others; one of them as it came; and at the
  // boundary these, their gradients, and own ones with theirs.
  const double activations = 400 + 40 + 4 + 8 * 4 * (5e3 + 2.5e3);
  EXPECT_NEAR(step({Parallelism::hybrid, 2, 0}, 2, cost).memory_bytes,
              1e8 + 3 * 7e5 + activations + 2 * 8 * 4 * 5e3 + (2 * 4 + 2 * 8) * 4e4, 1e-6);
}

TEST(Forecast, WaitsForTheLargestPart) {
  TrainingCost cost = network();
  cost.layers[1].parts = {2, 6};
  const StepForecast a = step({Parallelism::hybrid, 2, 0}, 2, cost);
  EXPECT_NEAR(a.compute_s, 1.2 + 1.5 * 0.24 + 0.12 + 0.09, 1e-12);
  EXPECT_NEAR(a.parameter_bytes, 1e5 + 0.75 * 8e5 + 2e5, 1e-6);
  EXPECT_EQ(group_sizes(cost, 4), (std::vector<int>{2}));
  EXPECT_EQ(group_sizes(network(), 4), (std::vector<int>{4, 2}));
  EXPECT_NE(message_of<UsageError>([&] {
              step({Parallelism::hybrid, 4, 0}, 4, cost);
            }).find("layer 'fc1' has parts for groups of 2 ranks, not of 4"),
            std::string::npos);
  cost.layers[1].parts = {0, 8};
  EXPECT_EQ(group_sizes(cost, 4), (std::vector<int>{}));
}

TEST(Forecast, GroupsAddUpDividedLayers) {
  const StepForecast two = step({Parallelism::hybrid, 2, 2}, 4);
  // As in one group of two; conv's gradients over four ranks take 0.15 s, and those of the divided
  // layers, 0.4 and 0.2 s over two groups, travel during conv's 0.8 s.
  EXPECT_NEAR(two.step_s, agreed(2) + 2.17 - 0.1 + 0.15, 1e-12);
  // With a variable batch they are waited for after each pass, and updates are made then.
  const StepForecast variable = step({Parallelism::hybrid, 2, 2, true}, 4);
  EXPECT_GT(variable.exposed_s, two.exposed_s + 2 * 0.6 - 1e-9);
  EXPECT_NEAR(variable.compute_s, two.compute_s + 0.06, 1e-12);
}

TEST(Forecast, ProcessorsAreShared) {
  const TrainingCost cost = network();
  const StepForecast half = forecast(cost, kLinks, {0.5}, 1, 4, {Parallelism::data});
  EXPECT_DOUBLE_EQ(half.step_s, 2 * 1.69);
  // Each byte costs the sender and the receiver 0.1 us: of 0.4 MB, in and out, 0.08 s of conv's and
  // fc1's backward.
  Network busy = kLinks;
  busy.processor_s_per_byte = 1e-7;
  const StepForecast two = forecast(cost, busy, {}, 2, 4, {Parallelism::data});
  EXPECT_NEAR(two.step_s, step({Parallelism::data}, 2).step_s + 0.08, 1e-5);
}

TEST(Forecast, LatencyCountsByStep) {
  Network slow = kLinks;
  slow.latency_s = 0.01;
  slow.exchange_latency_s = 0.001;
  // Agreeing takes 2 steps among four; the second bucket a ring of 6.
  const StepForecast four = forecast(network(), slow, {}, 4, 4, {Parallelism::data});
  EXPECT_NEAR(four.step_s, step({Parallelism::data}, 4).step_s + 0.02 + 0.06, 1e-12);
  // Six exchanges that are waited for.
  const StepForecast a = forecast(network(), slow, {}, 2, 4, {Parallelism::hybrid, 2, 0});
  EXPECT_NEAR(a.step_s, step({Parallelism::hybrid, 2, 0}, 2).step_s + 0.01 + 0.02 + 6e-3, 1e-12);
}

TEST(Placements, AreAllThatDivideTheWorld) {
  std::vector<std::string> names;
  for (const Placement& placement : placements(network(), 4))
    names.push_back(name_of(placement, 4));
  EXPECT_EQ(names,
            (std::vector<std::string>{"sync", "model parallelism", "hybrid a, 1 x 4",
                                      "hybrid b, 1 x 4", "hybrid bc 2, 1 x 4", "hybrid c, 1 x 4",
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
  EXPECT_NE(
      message_of<UsageError>([&] { best_placement(all, 5); }).find("no placement takes as little"),
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
