// Steps of placements, worked out by hand.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "tests/base/scratch.h"
#include "tests/plan/three_layers.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::test::message_of;

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
  // fc1's gradients fill the first bucket, 1.2 MB, and those of conv are the second.
  const StepForecast two = step({Parallelism::data}, 2);
  // What ranks agree on travels while fc2's backward computes; of the first bucket's 1.2 s conv's
  // backward hides 0.8.
  EXPECT_NEAR(two.step_s, 0.52 + 1.04 + 0.5 + 0.13, 1e-12);
  EXPECT_NEAR(two.exposed_s, 0.5, 1e-12);
  EXPECT_NEAR(two.communication_s, agreed(1) + 1.2 + 0.1, 1e-12);
  EXPECT_NEAR(two.hidden(), 0.8 / 1.3, 1e-4);
  EXPECT_NEAR(two.sent_bytes, 8 + 1.3e6, 1e-6);
  EXPECT_DOUBLE_EQ(two.compute_s, 1.69);
  // A ring of four: 1.5 times the bytes.
  const StepForecast four = step({Parallelism::data}, 4);
  EXPECT_NEAR(four.sent_bytes, 16 + 1.5 * 1.3e6, 1e-6);
  EXPECT_NEAR(four.step_s, 0.52 + 1.04 + 1.0 + 0.15 + 0.13, 1e-12);
}

TEST(Forecast, CopiesAndBucketsCount) {
  TrainingCost cost = network();
  cost.copy_s_per_byte = 1e-6;
  cost.layers[1].gradients[0].in_place = true;
  cost.first_bucket_bytes = 8 << 20;
  // One bucket, started at the end of backward.
  const StepForecast two = step({Parallelism::data}, 2, cost);
  EXPECT_NEAR(two.step_s, 0.52 + 1.04 + 0.4 + 0.1 + 1.3 + 0.13, 1e-12);
}

TEST(Forecast, ModelParallelismGathersWhatIsDivided) {
  // Eight samples on half of the units take as long as four on all.
  const StepForecast two = step({Parallelism::model}, 2);
  EXPECT_NEAR(two.step_s, agreed(1) + 0.52 + 1.04 + 2 * (0.16 + 0.08 + 0.04) + 0.065, 1e-12);
  EXPECT_DOUBLE_EQ(two.parameter_bytes, 6.5e5);
  EXPECT_NEAR(two.sent_bytes, 8 + 2 * 2.8e5, 1e-6);
}

TEST(Forecast, SchemeAHidesNoExchange) {
  // 0.16 s for activations and as long for gradients; 0.08 between the layers, 0.02 for scores.
  const StepForecast a = step({Parallelism::hybrid, 2, 0}, 2);
  const double exchanged = 2 * (0.16 + 0.08 + 0.02);
  EXPECT_NEAR(a.step_s, 1.2 + 0.36 + exchanged + 0.1 + 0.07, 1e-12);
  EXPECT_NEAR(a.exposed_s, exchanged + 0.1, 1e-12);
  // What ranks agree on travels while conv computes.
  EXPECT_NEAR(a.communication_s - a.exposed_s, agreed(1), 1e-12);
}

TEST(Forecast, SchemeCExchangesWhilePassesCompute) {
  // Activations of pass 0 take 0.08 s. Those of pass 1 travel while pass 0 computes for 0.04 s, and
  // then have half of the link, beside what pass 0 has between the layers: 0.08 s for both. What
  // pass 1 has there, 0.04 s, travels while it computes the next layer for pass 0, 0.02 s, and then
  // beside its scores: 0.03 s. Scores of pass 1 take 0.02 s, beside the gradients of those of pass
  // 0. Backward everything of one pass travels while the other one computes, but the last gradients
  // of activations.
  const StepForecast c = step({Parallelism::hybrid, 2, 2}, 2);
  EXPECT_NEAR(c.exposed_s, 0.08 + 0.08 + 0.03 + 0.02 + 0.08 + 0.1, 1e-12);
  EXPECT_NEAR(c.step_s, 2.02, 1e-12);
  EXPECT_NEAR(c.compute_s, 1.63, 1e-12);
  EXPECT_DOUBLE_EQ(c.parameter_bytes, 1e5 + 6e5);
  // As many bytes as in scheme a.
  EXPECT_NEAR(c.sent_bytes, step({Parallelism::hybrid, 2, 0}, 2).sent_bytes, 1e-6);
}

TEST(Forecast, PassesCanBeFewerThanRanks) {
  const auto of = [](int passes) { return step({Parallelism::hybrid, 4, 4, false, passes}, 4); };
  EXPECT_EQ(of(4).step_s, step({Parallelism::hybrid, 4, 4}, 4).step_s);
  EXPECT_EQ(of(1).step_s, step({Parallelism::hybrid, 4, 0}, 4).step_s);
  EXPECT_NEAR(of(2).sent_bytes, of(4).sent_bytes, 1e-6);
  EXPECT_NEAR(of(2).compute_s, of(4).compute_s, 1e-12);
  EXPECT_LT(of(2).step_s, of(1).step_s);
  EXPECT_LT(of(4).step_s, of(2).step_s);
  // More than there are samples: one has none.
  const StepForecast one =
      forecast(network(), kLinks, {}, 2, 1, {Parallelism::hybrid, 2, 2, false, 3});
  EXPECT_NEAR(one.step_s, forecast(network(), kLinks, {}, 2, 1, {Parallelism::hybrid, 2, 0}).step_s,
              1e-12);
}

TEST(Forecast, GradientsOfDividedWeightsAreComputedInPlaceOfWaiting) {
  TrainingCost cost = network();
  const Placement a{Parallelism::hybrid, 2, 0};
  const double waited = 2 * (0.16 + 0.08 + 0.02) + 0.1;
  EXPECT_NEAR(step(a, 2, cost).exposed_s, waited, 1e-12);
  cost.late_gradients = true;
  // Half of fc1's backward, 0.16 s, and of fc2's, 0.08 s: while gradients of activations travel.
  EXPECT_NEAR(step(a, 2, cost).exposed_s, waited - 0.12, 1e-9);
  EXPECT_NEAR(step(a, 2, cost).step_s, step(a, 2).step_s - 0.12, 1e-9);
  // What a rank has of the gradients of outputs is kept, of all samples.
  EXPECT_NEAR(step(a, 2, cost).memory_bytes - step(a, 2).memory_bytes, 8 * (2.5e3 + 1.25e3) * 4, 1);
  // So much of it that there is some for conv's gradients, and some left for nobody.
  cost.layers[1].times[0].backward_s = 0.8;
  const StepForecast more = step(a, 2, cost);
  EXPECT_NEAR(more.exposed_s, waited - 0.16 - 0.1, 1e-9);
  EXPECT_NEAR(more.step_s, step(a, 2).step_s + 0.64 - 0.16 - 0.1, 1e-9);
  // Of many samples nothing is kept.
  EXPECT_EQ(forecast(cost, kLinks, {}, 2, 4000, a).memory_bytes,
            forecast(network(), kLinks, {}, 2, 4000, a).memory_bytes);
  // With a variable batch weights need them after each pass.
  const Placement variable{Parallelism::hybrid, 2, 2, true};
  const StepForecast late = step(variable, 2, cost);
  cost.late_gradients = false;
  EXPECT_EQ(late.step_s, step(variable, 2, cost).step_s);
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
  // Activations of pass 1 have 0.04 s while pass 0 computes, share the link of rank 1 with what
  // pass 0 has between the layers, 0.08 s for that, and then have 0.08 s left. What pass 1 has
  // there waits 0.04 s, beside scores for rank 0, and its scores as long, beside gradients of
  // those. The gradients of pass 0 come from rank 1, those of pass 1 from rank 0.
  EXPECT_NEAR(step({Parallelism::hybrid, 2, 1}, 2).exposed_s,
              0.16 + 0.16 + 0.04 + 0.04 + 0.16 + 0.1, 1e-12);
  EXPECT_NEAR(step({Parallelism::hybrid, 2, 1}, 2).step_s, 2.29, 1e-12);
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
  // Ranks agree for 16 s. The first activations take 2 s; each of the others 3 s, since what the
  // pass before has between the layers takes half of the link for 2 s. That of the last pass takes
  // 1 s. Back, three passes have as much between the layers at the same time: 3 s. Then all
  // gradients are on their way, each link having two to send: 2 s.
  EXPECT_NEAR(b.step_s, 16 + 2 + 3 + 3 + 1 + 3 + 2, 1e-9);
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
  EXPECT_NEAR(two.step_s, 0.52 + 1.04 + 1.3 + 0.65 + 1.3 + 0.13, 1e-12);
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
  EXPECT_NEAR(two.step_s, 2.02 - 0.1 + 0.15, 1e-12);
  // With a variable batch they are waited for after each pass, and updates are made then.
  const StepForecast variable = step({Parallelism::hybrid, 2, 2, true}, 4);
  EXPECT_GT(variable.exposed_s, two.exposed_s + 2 * 0.6 - 1e-9);
  EXPECT_NEAR(variable.compute_s, two.compute_s + 0.06, 1e-12);
}

TEST(Forecast, ProcessorsAreShared) {
  const TrainingCost cost = network();
  const StepForecast half = forecast(cost, kLinks, {0.5}, 1, 4, {Parallelism::data});
  EXPECT_DOUBLE_EQ(half.step_s, 2 * 1.69);
  // Each byte costs the sender and the receiver 0.1 us: of fc2's 0.4 MB, in and out, 0.08 s of
  // conv's and fc1's backward.
  TrainingCost divided = cost;
  divided.first_bucket_bytes = 4e5;
  Network busy = kLinks;
  busy.processor_s_per_byte = 1e-7;
  const StepForecast two = forecast(divided, busy, {}, 2, 4, {Parallelism::data});
  EXPECT_NEAR(two.step_s, step({Parallelism::data}, 2, divided).step_s + 0.08, 1e-5);
}

TEST(Forecast, LatencyCountsByStep) {
  Network slow = kLinks;
  slow.latency_s = 0.01;
  slow.exchange_latency_s = 0.001;
  // Agreeing, 2 steps among four, is hidden; the second bucket takes a ring of 6.
  const StepForecast four = forecast(network(), slow, {}, 4, 4, {Parallelism::data});
  EXPECT_NEAR(four.step_s, step({Parallelism::data}, 4).step_s + 0.06, 1e-12);
  // Conv's gradients, a ring of 2, and six exchanges that are waited for.
  const StepForecast a = forecast(network(), slow, {}, 2, 4, {Parallelism::hybrid, 2, 0});
  EXPECT_NEAR(a.step_s, step({Parallelism::hybrid, 2, 0}, 2).step_s + 0.02 + 6e-3, 1e-12);
}

}  // namespace
