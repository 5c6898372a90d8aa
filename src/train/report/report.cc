#include "convoy/train/report.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "train/logging/environment.h"
#include "train/report/figures.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

// Folders of the same name are told apart by their whole paths.
void name_apart(std::vector<RunRecord>& runs) {
  std::vector<std::string> labels;
  for (const RunRecord& run : runs) labels.push_back(run.label);
  for (RunRecord& run : runs) {
    if (std::count(labels.begin(), labels.end(), run.label) > 1) run.label = run.folder;
  }
}

std::string title_of(const std::vector<RunRecord>& runs) {
  std::string title;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < runs.size() && i < kMost; ++i)
    title += (i == 0 ? "" : ", ") + escaped(runs[i].label);
  if (runs.size() > kMost) title += " and " + std::to_string(runs.size() - kMost) + " others";
  return title;
}

void add_run(Page& page, const RunRecord& run) {
  add_step_times(page, run);
  add_groups(page, run);
  page.add("<h3>What it was</h3>\n");
  add_details(page, run);
}

}  // namespace

struct Report::Impl {
  std::vector<RunRecord> runs;
};

Report::Report(const std::vector<std::string>& folders) : impl_(std::make_unique<Impl>()) {
  if (folders.empty()) throw UsageError("which run? Name its folder, as runs/lenet-mnist");
  for (const std::string& folder : folders) impl_->runs.push_back(read_run(folder));
  name_apart(impl_->runs);
}

Report::~Report() = default;

ReportFigures Report::figures() const {
  const std::vector<RunRecord>& runs = impl_->runs;
  ReportFigures figures;
  for (const RunRecord& run : runs) figures.runs.push_back(figures_of(run));
  if (runs.size() == 1) return figures;
  if (auto levels = times_to_levels(runs)) figures.levels = std::move(levels->times);
  for (const std::vector<SpeedUp>& group : speed_ups(runs))
    figures.speed_ups.insert(figures.speed_ups.end(), group.begin(), group.end());
  return figures;
}

std::string Report::page() const {
  const std::vector<RunRecord>& runs = impl_->runs;
  const bool one = runs.size() == 1;
  const bool timed = std::all_of(runs.begin(), runs.end(),
                                 [](const RunRecord& run) { return run.elapsed_s() > 0; });
  Page page(kRunPage, title_of(runs), !one && timed ? Over::time : Over::steps);
  page.add("<h1>" + (one ? title_of(runs) : std::to_string(runs.size()) + " runs") +
           "</h1>\n<p class=\"soft\">Report of " + utc_now() + "</p>\n");
  if (one) {
    add_summary(page, runs.front());
  } else {
    add_overview(page, runs);
    add_recipe_differences(page, runs);
    add_times_to_levels(page, runs);
    add_scaling(page, runs);
    page.add("<h2>Curves</h2>\n");
  }
  const bool curves = std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    return !run.steps.step.empty() || !run.evaluations.empty();
  });
  if (curves) add_curves(page, runs);
  for (const RunRecord& run : runs) {
    if (one) {
      add_run(page, run);
      continue;
    }
    page.add("<h2>" + escaped(run.label) + "</h2>\n");
    add_summary(page, run);
    add_run(page, run);
  }
  return page.finish();
}

}  // namespace convoy::train
