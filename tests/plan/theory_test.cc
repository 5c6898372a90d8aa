// Every equation against values worked out without its closed form (tests/golden/plan.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/plan/convergence.h"
#include "convoy/plan/hardware.h"
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
