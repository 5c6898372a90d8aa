// The folder of a plan: what was measured, and the runs under way.
//
//   points.jsonl   measurements (convoy/plan/points.h)
//   curves.jsonl   all evaluations of each run: what a target that is not reached came to
//   recipe.toml    the recipe of the runs
//   machine.toml   the machine that answers are for
//   plan.toml      the answers, for `convoy train --plan`
//   report.html    the same with pictures, for people
//   trials/        of trainings under way, each removed at its end
//
// By its points a folder is known as one of a plan: in another, nothing is written or removed.
#pragma once

#include <string>

#include "cli/plan/goal.h"
#include "cli/plan/planned.h"
#include "cli/plan/trial_folders.h"
#include "convoy/plan/points.h"

namespace convoy::cli {

class PlanFolder {
 public:
  // Makes it, or goes on with what is in it. Throws UsageError for one that has something in it and
  // is none of a plan, for one that has points unless `resume`, and for points of another recipe or
  // goal, saying what differs.
  PlanFolder(const std::string& path, const Planned& planned, bool resume);
  // Points of which there is none are removed, and the recipe: they would keep other targets out.
  ~PlanFolder();
  PlanFolder(const PlanFolder&) = delete;
  PlanFolder& operator=(const PlanFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // A new folder for a training.
  TrialFolder new_run() const { return trials_.fresh(); }

  const plan::PlanPoints& points() const { return points_.points(); }
  void add(const plan::PointRun& run, const Curve& curve);
  void add(const plan::TimeSample& time) { points_.add(time); }
  void add(const plan::CommunicationSample& time) { points_.add(time); }
  // What is timed from now on is timed on this machine.
  void move_to(const std::string& machine) { points_.move_to(machine); }

 private:
  std::string path_;
  plan::PointsFile points_;
  TrialFolders trials_;
};

// The points of a plan that has been measured with this recipe. Throws UsageError where there is
// none, or another recipe's.
plan::PlanPoints read_points(const std::string& folder);
void check_same_plan(const std::string& folder, const plan::PlanHeader& there,
                     const Planned& planned);

// The best value that a run towards this level came to, and where; found is false where no run was
// evaluated.
struct Closest {
  bool found = false;
  double value = 0;
  std::int64_t batch = 0;
  double learning_rate = 0;
  std::int64_t updates = 0;
};
Closest closest_run(const std::string& folder, const Goal& goal);

}  // namespace convoy::cli
