// What a better machine changes, and which one a budget pays for.
#include "convoy/plan/hardware.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/plan/theory_golden.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::plan::test::golden;
using convoy::plan::test::law_of;
using convoy::plan::test::machine_of;
using convoy::plan::test::near;
using convoy::plan::test::prices_of;
using convoy::test::message_of;
using nlohmann::json;

TEST(Hardware, TheBestDesignIsBalancedAsEquation12Says) {
  const json& design = golden()["design"];
  const Machine machine = machine_of(design["machine"]);
  const Prices prices = prices_of(design);
  const Design best = best_design(law_of(design), machine, prices, design["budget"], 24);
  EXPECT_EQ(best.workers, design["best"]["workers"]);
  near(best.machine.communication.delta_s, design["best"]["delta"], 1e-9);
  near(best.batch, design["best"]["batch"], 1e-6);
  near(best.seconds, design["best"]["seconds"], 1e-9);
  near(best.cost, design["budget"], 1e-9);  // equation 11
  near(cost(prices, best.machine, best.workers), design["budget"], 1e-9);

  Machine at_balance = machine;
  at_balance.communication.delta_s = design["balanced"]["delta"];
  const Balance even =
      balance(law_of(design), at_balance, design["balanced"]["workers"].get<double>(), prices);
  EXPECT_GT(even.saved_by_workers, 0);
  near(even.saved_by_workers, even.saved_by_bandwidth, 1e-4);
  // With too few workers the money is better spent on them, with too many on the network.
  EXPECT_GT(balance(law_of(design), at_balance, 4, prices).saved_by_workers,
            balance(law_of(design), at_balance, 4, prices).saved_by_bandwidth);
  EXPECT_LT(balance(law_of(design), at_balance, 24, prices).saved_by_workers,
            balance(law_of(design), at_balance, 24, prices).saved_by_bandwidth);
  // What does not pay for two workers pays for one, which needs no network.
  const Design one = best_design(law_of(design), machine, prices, 79, 24);
  EXPECT_EQ(one.workers, 1);
  EXPECT_EQ(one.cost, 40);
  EXPECT_EQ(one.seconds, optimal_seconds(law_of(design), machine, 1));
  EXPECT_EQ(
      message_of<UsageError>([&] { (void)best_design(law_of(design), machine, prices, 39, 24); }),
      "a budget of 39 does not pay for one worker, which costs 40");
  // One worker is as good as any where networks are slow and dear.
  Machine slow = machine;
  slow.communication.delta_s = 10;
  const Prices dear{prices.compute, [](double delta) { return 1e4 / delta; }};
  EXPECT_EQ(best_design(law_of(design), slow, dear, 1000, 24).workers, 1);
}

// The third side of equation 12: what a processor costs that takes less for a sample.
TEST(Hardware, FasterProcessorsAreWeighedWhereTheyHaveAPrice) {
  const json& design = golden()["design"];
  const Machine machine = machine_of(design["machine"]);
  EXPECT_FALSE(balance(law_of(design), machine, 8, prices_of(design)).saved_by_processors);
  const auto with_power = [&](double power) {
    Prices prices = prices_of(design);
    prices.compute = [=, &machine](double workers, double gamma) {
      return 40 * workers * std::pow(machine.seconds_per_sample / gamma, power);
    };
    return balance(law_of(design), machine, 8, prices).saved_by_processors.value();
  };
  // Written out: equation 10, and what its first branch loses with gamma.
  const auto seconds = [&](double times) {
    Machine other = machine;
    other.seconds_per_sample *= times;
    return optimal_seconds(law_of(design), other, 8);
  };
  const double step = 1e-4;
  near(with_power(1), (seconds(1 + step) - seconds(1 - step)) / (2 * step) / (40 * 8), 1e-5);
  near(with_power(2), with_power(1) / 2, 1e-5);
}

// With a price that grows slower than their speed, a few fast ones are better than many.
TEST(Hardware, ProcessorsAreChosenAmongThoseThatThereAre) {
  const json& design = golden()["design"];
  const Machine machine = machine_of(design["machine"]);
  const auto with_power = [&](double power, const ProcessorRange& range) {
    Prices prices = prices_of(design);
    prices.compute = [=, &machine](double workers, double gamma) {
      return 40 * workers * std::pow(machine.seconds_per_sample / gamma, power);
    };
    const Design best = best_design(law_of(design), machine, prices, design["budget"], 24, range);
    EXPECT_LE(best.cost, design["budget"].get<double>() * (1 + 1e-9));
    near(best.machine.seconds_per_sample, machine.seconds_per_sample / best.processor, 1e-12);
    near(best.seconds, optimal_seconds(law_of(design), best.machine, best.workers), 1e-12);
    return best;
  };
  const Design today = with_power(1, {});
  EXPECT_EQ(today.processor, 1);
  const Design cheap = with_power(0.5, {1, 4});
  near(cheap.processor, 4, 1e-9);
  EXPECT_LT(cheap.seconds, today.seconds);
  // So dear that slower ones pay.
  const Design dear = with_power(4, {0.25, 4});
  EXPECT_LT(dear.processor, 1);
  EXPECT_LT(dear.seconds, today.seconds);
  // Between both: what is found is no worse than any of those beside it.
  const Design middle = with_power(1.3, {0.25, 4});
  for (const double times : {0.3, 0.5, 0.8, 1.0, 1.2, 1.6, 2.5}) {
    Prices prices = prices_of(design);
    const Machine other = [&] {
      Machine one = machine;
      one.seconds_per_sample /= times;
      return one;
    }();
    prices.compute = [=](double workers, double) { return 40 * workers * std::pow(times, 1.3); };
    EXPECT_LE(middle.seconds,
              best_design(law_of(design), other, prices, design["budget"], 24).seconds * (1 + 1e-6))
        << times;
  }
  EXPECT_EQ(message_of<UsageError>([&] {
              with_power(1, {2, 4});
            }),
            "the slowest processor is 2; it must be at most 1");
  EXPECT_EQ(message_of<UsageError>([&] {
              with_power(1, {0.5, 0.9});
            }),
            "the fastest processor is 0.9; it must be at least 1");
}

// Where equation 4 is not good enough, measured times are what a change is of.
TEST(Hardware, WhatIfTakesATableOfTimes) {
  const UpdateLaw law{100, 3000};
  Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.overhead_s = 1e-3;
  machine.table = {{1, 0.001}, {4, 0.0035}, {16, 0.00875}, {64, 0.04}};
  machine.communication.kind = CommunicationKind::constant;
  machine.communication.delta_s = 2e-3;
  const BatchTime now = best_batch(law, machine, 2, 600);
  EXPECT_EQ(optimum(law, machine, 2, 600).batch, static_cast<double>(now.batch));
  EXPECT_EQ(optimum(law, machine, 2, 600).seconds, now.seconds);
  std::vector<std::string> names;
  for (const WhatIf& row : what_if(law, machine, 2, 2, 600)) {
    names.push_back(row.change);
    Machine changed = machine;
    if (row.change == "processor") {
      for (ComputePoint& point : changed.table) point.seconds /= 2;
      changed.seconds_per_sample /= 2;
    }
    if (row.change == "bandwidth") changed.communication.delta_s /= 2;
    const BatchTime best = best_batch(law, changed, row.change == "workers" ? 4 : 2, 600);
    EXPECT_EQ(row.batch, static_cast<double>(best.batch)) << row.change;
    EXPECT_DOUBLE_EQ(row.seconds, best.seconds) << row.change;
    EXPECT_DOUBLE_EQ(row.speedup, now.seconds / best.seconds) << row.change;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"bandwidth", "processor", "workers"}));
  EXPECT_EQ(what_if(law, machine, 2, 2, 3).size(), 2u) << "there are no samples for 4 workers";
  // Neither is more given to a worker than its memory holds.
  machine.table.clear();
  machine.memory_samples = 5;
  EXPECT_GT(optimal_batch(law, machine, 2), 10);
  EXPECT_EQ(optimum(law, machine, 2).batch, 10);
}

TEST(Hardware, WhatIfNamesWhatPaysMost) {
  const json& one = golden()["cases"][0];  // communication decides
  const auto rows = what_if(law_of(one), machine_of(one["machine"]), 4, 2);
  ASSERT_EQ(rows.size(), 4u);  // it has no latency
  for (const WhatIf& row : rows) {
    Machine changed = machine_of(one["machine"]);
    std::int64_t workers = 4;
    if (row.change == "processor") changed.seconds_per_sample /= 2;
    if (row.change == "knee") changed.knee_samples /= 2;
    if (row.change == "bandwidth") changed.communication.delta_s /= 2;
    if (row.change == "workers") workers *= 2;
    near(row.seconds, optimal_seconds(law_of(one), changed, workers), 1e-13);
    near(row.speedup, optimal_seconds(law_of(one), machine_of(one["machine"]), 4) / row.seconds,
         1e-13);
  }
  EXPECT_EQ(rows.back().change, "knee") << "such a machine works far above it";
}

// A machine of which one worker was timed says nothing of two.
TEST(Hardware, WhatIfHasNoMoreWorkersWhereCommunicationIsUnknown) {
  Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.knee_samples = 4;
  const auto changes = [&machine] {
    std::vector<std::string> names;
    for (const WhatIf& row : what_if({100, 1000}, machine, 1, 2)) names.push_back(row.change);
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(changes(), (std::vector<std::string>{"knee", "processor", "workers"}));
  machine.communication.kind = CommunicationKind::unknown;
  EXPECT_EQ(changes(), (std::vector<std::string>{"knee", "processor"}));
}

}  // namespace
