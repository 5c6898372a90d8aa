#include "cli/plan/answers.h"

#include "base/toml_text.h"
#include "convoy/base/error.h"

namespace convoy::cli {

PlannedMachine fit_machine(const plan::PlanPoints& points) {
  PlannedMachine result;
  result.compute = plan::fit_compute(points.times);
  constexpr std::size_t kFewest = 2;
  if (points.communication.size() >= kFewest) {
    result.communication = plan::fit_communication(points.communication);
    result.machine = plan::measured_machine(*result.compute, *result.communication);
  } else {
    result.machine = plan::measured_machine(*result.compute);
  }
  return result;
}

Answers answer(const plan::PlanPoints& points, const PlannedMachine& machine,
               const std::vector<std::int64_t>& workers, std::int64_t largest) {
  Answers answers{points.header.metric, machine, {}, {}};
  for (const double level : points.header.targets) {
    try {
      LevelAnswer one{level, plan::fit_updates(points.updates(level)), {}};
      for (const std::int64_t count : workers)
        one.choices.push_back(plan::choose_batch(one.updates, machine.machine, count, largest));
      answers.levels.push_back(std::move(one));
    } catch (const UsageError& error) {
      answers.without.push_back(points.header.metric + " " + shortest(level) + ": " + error.what());
    }
  }
  if (!answers.levels.empty()) return answers;
  std::string text;
  for (const std::string& line : answers.without) text += (text.empty() ? "" : "\n") + line;
  throw UsageError(text);
}

}  // namespace convoy::cli
