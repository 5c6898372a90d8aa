#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

double rate_of_steps(const ScheduleRequest& r) {
  const double gamma = r.options.number("gamma");
  double rate = r.lr;
  // A milestone that falls on an update begins with it, whatever the rounding of positions.
  constexpr double kSlack = 1e-9;
  for (const double milestone : r.options.numbers("milestones")) {
    if (r.time + kSlack >= milestone) rate *= gamma;
  }
  return rate;
}

void check_milestones(const Recipe& recipe, std::vector<std::string>& problems) {
  const std::vector<double>& milestones = recipe.schedule.options.numbers("milestones");
  if (milestones.empty()) {
    problems.emplace_back("schedule.milestones is empty; the schedule step needs them");
    return;
  }
  double before = 0;
  for (const double milestone : milestones) {
    if (!(milestone > before)) {
      problems.emplace_back("schedule.milestones have to be ascending and above 0");
      break;
    }
    before = milestone;
  }
  const double length = schedule_length(recipe);
  if (length > 0 && !(milestones.back() < length)) {
    problems.push_back("schedule.milestones: the last one, " + plain_number(milestones.back()) +
                       ", lies beyond the end of training");
  }
}

}  // namespace

void add_step(Kinds<ScheduleKind>& kinds) {
  kinds.add({.name = "step",
             .doc = "multiplied by gamma at each milestone",
             .options = {{.key = "milestones",
                          .initial = std::vector<double>{},
                          .doc = "where, in unit; ascending",
                          .resume = ResumeRule::free},
                         {.key = "gamma",
                          .initial = 0.1,
                          .doc = "what the rate is multiplied by there",
                          .resume = ResumeRule::free,
                          .check = number_check([](double gamma) -> std::string {
                            return gamma <= 0 ? "has to be above 0" : "";
                          })}},
             .check = check_milestones,
             .rate = rate_of_steps});
}

}  // namespace convoy::train
