#include "optim/line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

namespace {

using namespace convoy::optim;

// Not the one with which the interval of the first stage ends: a loss that has fallen has fallen.
TEST(LineSearch, GivesUpAtTheLeastLoss) {
  LineSearchOptions options;
  options.decrease = 0.4;
  options.curvature = 0.5;
  options.evaluations = 3;
  LineSearch search(options, 0, -1, 1);
  EXPECT_EQ(search.tell(-0.1, 0.9), LineSearch::Verdict::go_on);
  for (const auto expected : {LineSearch::Verdict::go_on, LineSearch::Verdict::give_up}) {
    EXPECT_LT(search.step(), 1);
    EXPECT_EQ(search.best_step(), 1);
    EXPECT_EQ(search.tell(0.5, 0.9), expected);
  }
  EXPECT_EQ(search.best_step(), 1);
}

// Functions 1 and 2 of Moré and Thuente's paper, from first steps far too short and far too long.
TEST(LineSearch, FindsStepsThatSatisfyTheStrongWolfeConditions) {
  const auto one = [](double a) {
    return std::pair{-a / (a * a + 2), (a * a - 2) / std::pow(a * a + 2, 2)};
  };
  const auto two = [](double a) {
    const double b = a + 0.004;
    return std::pair{std::pow(b, 5) - 2 * std::pow(b, 4), 5 * std::pow(b, 4) - 8 * std::pow(b, 3)};
  };
  LineSearchOptions options;
  options.decrease = 1e-3;
  options.curvature = 0.1;
  options.evaluations = 40;
  for (const auto& function : {std::function<std::pair<double, double>(double)>(one), {two}}) {
    for (const double first : {1e-3, 1e-1, 1e1, 1e3}) {
      const auto [loss, slope] = function(0);
      LineSearch search(options, loss, slope, first);
      auto verdict = LineSearch::Verdict::go_on;
      double step = 0;
      while (verdict == LineSearch::Verdict::go_on) {
        step = search.step();
        const auto [there, steep] = function(step);
        verdict = search.tell(there, steep);
      }
      ASSERT_EQ(verdict, LineSearch::Verdict::accept) << first;
      const auto [there, steep] = function(step);
      EXPECT_LE(there, loss + options.decrease * step * slope);
      EXPECT_LE(std::abs(steep), -options.curvature * slope);
      EXPECT_LE(search.tried(), 12);
    }
  }
}

}  // namespace
