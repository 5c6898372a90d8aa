// Every equation against values worked out without its closed form (tests/golden/plan.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/plan/convergence.h"
#include "convoy/plan/hardware.h"
#include "tests/base/scratch.h"
#include "tests/golden/read.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::test::message_of;
using nlohmann::json;

const json& golden() {
  static const json values = convoy::golden::read("plan.json");
  return values;
}

Machine machine_of(const json& golden) {
  Machine machine;
  machine.seconds_per_sample = golden["gamma"];
  machine.knee_samples = golden["knee"];
  machine.communication.kind = communication_kind(golden["kind"]);
  machine.communication.delta_s = golden["delta"];
  machine.communication.latency_s = golden["latency"];
  return machine;
}

UpdateLaw law_of(const json& golden) { return {golden["n_inf"], golden["alpha"]}; }

void near(double value, double right, double part) {
  EXPECT_NEAR(value, right, std::abs(right) * part);
}

TEST(Theory, TimesAreThoseOfEquations1To5And7) {
  for (const json& one : golden()["cases"]) {
    const UpdateLaw law = law_of(one);
    const Machine machine = machine_of(one["machine"]);
    for (const json& answer : one["answers"]) {
      SCOPED_TRACE(one["name"].get<std::string>() + ", P = " + answer["workers"].dump());
      const std::int64_t p = answer["workers"];
      near(communication_seconds(machine.communication, p), answer["delta"], 1e-13);
      for (const json& time : answer["times"]) {
        near(ideal_convergence_seconds(law, machine, time["batch"].get<double>(), p), time["ideal"],
             1e-13);
        near(convergence_seconds(law, machine, time["batch"], p), time["whole"], 1e-13);
        near(updates_to_target(law, time["batch"]) * seconds_per_update(machine, time["batch"], p),
             time["whole"], 1e-13);
      }
    }
  }
}

// What an update takes besides its samples stands beside Delta(P): the closed forms are the least
// of all batches', with one worker, too.
TEST(Theory, AnOverheadActsAsCommunicationDoes) {
  Machine machine;
  machine.seconds_per_sample = 1e-4;
  machine.overhead_s = 3e-3;
  machine.processor_share = 0.5;
  machine.communication.kind = CommunicationKind::ring;
  machine.communication.delta_s = 2e-3;
  const UpdateLaw law{50, 4000};
  for (const double knee : {1.0, 40.0}) {
    machine.knee_samples = knee;
    for (const std::int64_t p : {1, 2, 4, 8}) {
      double least = 1e300, best = 0;
      for (double batch = static_cast<double>(p); batch < 1e4; batch *= 1.0005) {
        const double fixed =
            3e-3 / 0.5 +
            (p == 1 ? 0 : 2e-3 * 2 * static_cast<double>(p - 1) / static_cast<double>(p));
        const double each = fixed + 2e-4 * std::max(batch / static_cast<double>(p), knee);
        near(ideal_convergence_seconds(law, machine, batch, p), (50 + 4000 / batch) * each, 1e-12);
        if ((50 + 4000 / batch) * each < least) least = (50 + 4000 / batch) * each, best = batch;
      }
      EXPECT_LE(optimal_seconds(law, machine, p), least * (1 + 1e-12));
      near(optimal_seconds(law, machine, p), least, 1e-3);  // as far as such steps miss the knee
      near(optimal_batch(law, machine, p), best, 1e-2);
      EXPECT_LE(best_batch(law, machine, p, 10000).seconds,
                1.001 * convergence_seconds(law, machine,
                                            p * std::llround(best / static_cast<double>(p)), p));
    }
  }
  const Machine again = machine_of_toml(to_toml(machine));
  EXPECT_EQ(again, machine);
  machine.overhead_s = -1;
  EXPECT_NE(message_of<UsageError>([&] { validate(machine); }).find("compute.overhead_s"),
            std::string::npos);
}

TEST(Theory, OptimaAreThoseOfEquations8To10InBothBranchesAndBetween) {
  for (const json& one : golden()["cases"]) {
    const UpdateLaw law = law_of(one);
    const Machine machine = machine_of(one["machine"]);
    for (const json& answer : one["answers"]) {
      SCOPED_TRACE(one["name"].get<std::string>() + ", P = " + answer["workers"].dump());
      const std::int64_t p = answer["workers"];
      // At a smooth minimum half of the digits say where it is, and all of them how low.
      near(optimal_batch(law, machine, p), answer["batch"], 1e-6);
      near(optimal_seconds(law, machine, p), answer["seconds"], 1e-12);
      const BatchTime whole = best_batch(law, machine, p, one["largest"]);
      EXPECT_EQ(whole.batch, answer["whole_batch"]);
      near(whole.seconds, answer["whole_seconds"], 1e-13);
    }
  }
}

TEST(Theory, CommunicationDecidesUpToTheBoundaryOfEquation10) {
  const auto decides = [](const json& one, std::int64_t p) {
    return communication_decides(law_of(one), machine_of(one["machine"]), p);
  };
  const json& cases = golden()["cases"];
  for (const std::int64_t p : {2, 3, 4, 8, 16, 64}) {
    EXPECT_TRUE(decides(cases[0], p)) << p;
    EXPECT_FALSE(decides(cases[1], p)) << p;
    if (p != 8) {
      EXPECT_EQ(decides(cases[2], p), p < 8) << p;
    }
  }
  EXPECT_FALSE(decides(cases[0], 1)) << "one worker has nobody to wait for";
  // On the boundary both branches are the same.
  const UpdateLaw law = law_of(cases[2]);
  Machine machine = machine_of(cases[2]["machine"]);
  machine.knee_samples = 5 * (1 - 1e-9);
  const double below = optimal_seconds(law, machine, 8);
  EXPECT_TRUE(communication_decides(law, machine, 8));
  machine.knee_samples = 5 * (1 + 1e-9);
  EXPECT_FALSE(communication_decides(law, machine, 8));
  near(optimal_seconds(law, machine, 8), below, 1e-8);
}

TEST(Theory, StrongAndWeakScalingAreNeverBetterThanOptimal) {
  for (const json& one : golden()["cases"]) {
    std::vector<std::int64_t> workers = one["workers"];
    const auto rows = scaling(law_of(one), machine_of(one["machine"]), workers, one["largest"]);
    ASSERT_EQ(rows.size(), workers.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(one["name"].get<std::string>() + ", P = " + std::to_string(workers[i]));
      const json& answer = one["answers"][i];
      EXPECT_EQ(rows[i].optimal.batch, answer["whole_batch"]);
      ASSERT_EQ(rows[i].strong.has_value(), answer.contains("strong"));
      if (rows[i].strong) near(rows[i].strong->seconds, answer["strong"], 1e-13);
      if (rows[i].strong) {
        EXPECT_GE(rows[i].strong->seconds, rows[i].optimal.seconds);
      }
      ASSERT_EQ(rows[i].weak.has_value(), answer.contains("weak"));
      if (rows[i].weak) near(rows[i].weak->seconds, answer["weak"], 1e-13);
      if (rows[i].weak) {
        EXPECT_GE(rows[i].weak->seconds, rows[i].optimal.seconds);
      }
    }
  }
}

TEST(Theory, ValidationCostsWhatEquation6Says) {
  const json& v = golden()["validation"];
  Machine machine;
  machine.seconds_per_sample = v["gamma"];
  machine.knee_samples = v["knee"];
  const Validation validation{v["every"], v["gamma_cv"], v["cv_samples"]};
  near(compute_seconds_with_validation(machine, v["samples"], validation), v["seconds"], 1e-13);
}

TEST(Theory, TheBoundHoldsForItsRecurrenceAndBecomesTheLaw) {
  for (const json& one : golden()["descents"]) {
    const Descent descent{one["initial"], one["target"], one["lambda"]};
    const double sigma = one["sigma"];
    // The bound is not tight, but close to what it bounds.
    EXPECT_GE(updates_bound(descent, sigma), one["iterated"]) << sigma;
    EXPECT_LE(updates_bound(descent, sigma), 1.02 * one["iterated"].get<double>()) << sigma;
    const UpdateLaw law = law_of_bound(descent, sigma * sigma / 3 * 64);
    near(updates_to_target(law, 64), updates_bound_small_noise(descent, sigma), 1e-13);
    if (sigma <= 0.01) {
      near(updates_bound_small_noise(descent, sigma), updates_bound(descent, sigma), 1e-3);
    }
  }
}

Prices prices_of(const json& design) {
  const double per_worker = design["per_worker"], bandwidth = design["bandwidth"];
  return {[=](double workers, double) { return per_worker * workers; },
          [=](double delta) { return bandwidth / delta; }};
}

TEST(Theory, TheBestDesignIsBalancedAsEquation12Says) {
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
TEST(Theory, FasterProcessorsAreWeighedWhereTheyHaveAPrice) {
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
TEST(Theory, ProcessorsAreChosenAmongThoseThatThereAre) {
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
TEST(Theory, WhatIfTakesATableOfTimes) {
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

TEST(Theory, WhatIfNamesWhatPaysMost) {
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
TEST(Theory, WhatIfHasNoMoreWorkersWhereCommunicationIsUnknown) {
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

TEST(Theory, RefusesWhatHasNoAnswer) {
  const UpdateLaw law{100, 1000};
  Machine machine;
  machine.seconds_per_sample = 1e-3;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message_of<UsageError>([&] { (void)convergence_seconds(law, machine, 3, 4); }),
            "the batch is 3; it must be from 4 (a sample per worker) to 2^53");
  EXPECT_NO_THROW((void)convergence_seconds(law, machine, 4, 4));
  EXPECT_THROW((void)convergence_seconds(law, machine, 0, 1), UsageError);
  EXPECT_THROW((void)convergence_seconds(law, machine, 4, 0), UsageError);
  EXPECT_THROW((void)convergence_seconds(law, machine, 4, -1), UsageError);
  EXPECT_THROW((void)ideal_convergence_seconds(law, machine, nan, 1), UsageError);
  EXPECT_THROW((void)ideal_convergence_seconds(law, machine, 3.9, 4), UsageError);
  EXPECT_THROW((void)updates_to_target({nan, 1}, 1), UsageError);
  EXPECT_THROW((void)updates_to_target({1, -1}, 1), UsageError);
  EXPECT_THROW((void)updates_to_target(law, 0), UsageError);
  // A law below 0 has updates left at small batches only.
  EXPECT_DOUBLE_EQ(updates_to_target({-1, 1000}, 999), 1000. / 999 - 1);
  EXPECT_THROW((void)updates_to_target({-1, 1000}, 1000), UsageError);
  EXPECT_EQ(message_of<UsageError>([&] {
              (void)optimal_batch({0, 1}, machine, 2);
            }),
            "N_inf is 0; it must be above 0: without it, larger is always better");
  EXPECT_THROW((void)optimal_seconds({-1, 1}, machine, 1), UsageError);
  EXPECT_THROW((void)best_batch(law, machine, 4, 3), UsageError);
  EXPECT_THROW((void)updates_bound({1, 0.1, 1e-3}, 0.1), UsageError);
  EXPECT_THROW((void)updates_bound({0.1, 0.1, 1e-3}, 0.01), UsageError);
  EXPECT_THROW((void)law_of_bound({1, 0.1, 0}, 1), UsageError);
  EXPECT_THROW((void)compute_seconds(machine, 0), UsageError);
  EXPECT_THROW((void)compute_seconds_with_validation(machine, 1, {0, 1e-3, 1}), UsageError);
  EXPECT_THROW((void)what_if(law, machine, 2, 0), UsageError);
  EXPECT_EQ(message_of<UsageError>([&] { (void)balance(law, machine, 2, {}); }),
            "prices need a function for computation and one for bandwidth");
  EXPECT_THROW((void)balance(law, machine, 2, prices_of(golden()["design"])), UsageError)
      << "there is no network to buy";
  machine.communication.kind = CommunicationKind::constant;
  machine.communication.delta_s = 1e-3;
  const auto grows = [](double workers, double) { return 10 * workers; };
  const auto falls = [](double delta) { return 1 / delta; };
  EXPECT_NO_THROW((void)balance(law, machine, 2, {grows, falls}));
  for (const Prices& prices : {Prices{[](double, double) { return 10.0; }, falls},
                               Prices{[](double workers, double) { return 10 / workers; }, falls},
                               Prices{grows, [](double) { return 1.0; }},
                               Prices{grows, [](double delta) { return delta; }}}) {
    EXPECT_EQ(message_of<UsageError>([&] { (void)balance(law, machine, 2, prices); }),
              "these prices have no balance here; they must grow with the workers and fall with "
              "delta");
  }
}

TEST(Theory, BestBatchTakesLawsWithoutABestAndMeasuredTimes) {
  Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.knee_samples = 4;
  machine.communication.kind = CommunicationKind::constant;
  machine.communication.delta_s = 1e-3;
  EXPECT_EQ(best_batch({-5, 1e5}, machine, 4, 1000).batch, 1000);
  EXPECT_EQ(best_batch({-5, 1e5}, machine, 3, 1000).batch, 999) << "334 samples would set the pace";
  machine.table = {{1, 0.004}, {4, 0.0041}, {16, 0.008}, {64, 0.08}};
  const UpdateLaw law{100, 1e4};
  for (const std::int64_t p : {1, 2, 3}) {
    BatchTime best{p, convergence_seconds(law, machine, p, p)};
    for (std::int64_t m = p; m <= 64 * p; ++m) {
      const double seconds = convergence_seconds(law, machine, m, p);
      if (seconds < best.seconds) best = {m, seconds};
    }
    EXPECT_EQ(best_batch(law, machine, p, 1000000).batch, best.batch) << p;
  }
  EXPECT_THROW((void)optimal_batch(law, machine, 2), UsageError);
  // The last batch that the table has times for, whatever the remainder: 65 samples have none.
  machine.table = {{1, 0.004}, {64, 0.005}};
  for (const std::int64_t largest : {127, 128, 129, 130, 60000})
    EXPECT_EQ(best_batch(law, machine, 2, largest).batch, std::min<std::int64_t>(largest, 128));
}

TEST(Theory, ALawThatFallsToNothingEndsTheSearch) {
  Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.knee_samples = 4;
  machine.communication.kind = CommunicationKind::constant;
  machine.communication.delta_s = 1e-3;
  for (const bool table : {false, true}) {
    if (table) machine.table = {{1, 0.004}, {4, 0.0041}, {20000, 20}};
    // At 20000 the law is 0: at 19999 it is not.
    EXPECT_EQ(best_batch({-5, 1e5}, machine, 1, 19998).batch, 19998);
    EXPECT_EQ(best_batch({-5, 1e5}, machine, 1, 60000).batch, 19999);
    EXPECT_GE(best_batch({-5, 1e5}, machine, 4, 60000).batch, 19996);
    EXPECT_THROW((void)best_batch({-5, 20}, machine, 4, 60000), UsageError) << "0 at one each";
    EXPECT_EQ(best_batch({-5, 20.5}, machine, 4, 60000).batch, 4);
    const auto rows = scaling({-5, 1e5}, machine, {1, 3}, 60000);
    EXPECT_EQ(rows[1].strong->batch, 19999);
    EXPECT_FALSE(rows[1].weak) << "nothing is known of 59997";
  }
}

}  // namespace
