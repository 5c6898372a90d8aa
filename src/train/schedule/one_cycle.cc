#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

// As PyTorch's OneCycleLR: the largest rate is that of an update, and so is the last one, behind
// which a part of the length of one is left.
double rate_of_cycle(const ScheduleRequest& r) {
  const double first = r.lr / r.options.number("div_factor");
  const double last = first / r.options.number("final_div_factor");
  const double top = r.options.number("pct_start") - r.update, end = 1 - r.update;
  const auto between = [](double from, double to, double way) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(way, 0.0, 1.0))) / 2;
  };
  if (r.part < top) return between(first, r.lr, r.part / top);
  return end > top ? between(r.lr, last, (r.part - top) / (end - top)) : r.lr;
}

std::string wrong_divisor(double divisor) {
  if (!(divisor < 1)) return "";
  return "is " + plain_number(divisor) + "; it has to be at least 1";
}

void check_cycle(const Recipe& recipe, std::vector<std::string>& problems) {
  if (recipe.schedule.warmup == 0) return;
  problems.emplace_back(
      "schedule.warmup is for other schedules than one_cycle, whose rate rises by itself "
      "(schedule.pct_start)");
}

}  // namespace

void add_one_cycle(Kinds<ScheduleKind>& kinds) {
  kinds.add({.name = "one_cycle",
             .doc = "up to lr and down to nearly nothing, along half a cosine each",
             .options = {{.key = "pct_start",
                          .initial = 0.3,
                          .doc = "the part of the training in which the rate rises",
                          .resume = ResumeRule::free,
                          .check = number_check([](double part) -> std::string {
                            return part >= 0 && part <= 1 ? "" : "has to be 0 to 1";
                          })},
                         {.key = "div_factor",
                          .initial = 25.0,
                          .doc = "the first rate is lr divided by this",
                          .resume = ResumeRule::free,
                          .check = number_check(wrong_divisor)},
                         {.key = "final_div_factor",
                          .initial = 1e4,
                          .doc = "the last rate is the first one divided by this",
                          .resume = ResumeRule::free,
                          .check = number_check(wrong_divisor)}},
             .check = check_cycle,
             .rate = rate_of_cycle});
}

}  // namespace convoy::train
