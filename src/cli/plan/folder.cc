#include "cli/plan/folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/append.h"
#include "base/own_files.h"
#include "base/toml_text.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/logging/keep_lines.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr const char* kPoints = "/points.jsonl";
constexpr const char* kCurves = "/curves.jsonl";
constexpr const char* kRecipe = "/recipe.toml";

plan::PlanHeader header_of(const Planned& planned) {
  return {planned.fingerprint, planned.goal.metric, planned.goal.levels};
}

std::string goal_text(const plan::PlanHeader& header) {
  std::string text;
  for (const double target : header.targets) text += (text.empty() ? "" : ",") + shortest(target);
  return header.metric + " " + text;
}

// Whether there is anything in the file.
bool has_points(const std::string& folder) {
  std::error_code error;
  const auto size = fs::file_size(folder + kPoints, error);
  return !error && size > 0;
}

// The folder is there, and its points may be opened.
std::string prepared(const std::string& folder, const Planned& planned, bool resume) {
  check_own_folder("--folder", folder, kPlanFolder);
  make_folders(folder);
  if (has_points(folder)) {
    if (!resume) {
      throw UsageError("there are points in " + folder +
                       " already: add --resume to go on with them, or name another --folder");
    }
    // A file that was killed before its first line was whole is begun anew.
    const std::string text = read_text_file(folder + kPoints);
    if (text.find('\n') != std::string::npos)
      check_same_plan(folder, plan::points_of_text(text, folder + kPoints).header, planned);
  }
  return folder + kPoints;
}

// Says of whom points are whose fingerprint is another one.
std::string whose_points(const std::string& folder, const Planned& planned) {
  const std::string of_others = "of another recipe or other data";
  std::error_code ignored;
  if (!fs::exists(folder + kRecipe, ignored)) return of_others;
  const std::string mine = train::print_recipe(planned.recipe, false);
  const std::string theirs = read_text_file(folder + kRecipe);
  std::vector<train::RecipeChange> changes = train::recipe_changes(mine, theirs);
  const auto earlier =
      std::find_if(changes.begin(), changes.end(), train::is_of_an_earlier_version);
  const std::string key = earlier == changes.end() ? "" : earlier->key;
  std::erase_if(changes, [](const train::RecipeChange& change) {
    return train::is_of_an_earlier_version(change) || is_left_out_of_fingerprints(change.key);
  });
  if (!changes.empty())
    return "of another recipe: " + train::recipe_difference(mine, theirs, "there");
  if (key.empty()) return of_others;
  return "of an earlier version of Convoy, whose recipes had other keys (" + key +
         "), so that nothing says whether they are of the same data";
}

}  // namespace

void check_same_plan(const std::string& folder, const plan::PlanHeader& there,
                     const Planned& planned) {
  if (there.fingerprint != planned.fingerprint) {
    throw UsageError("the points in " + folder + " are " + whose_points(folder, planned) +
                     "; name another --folder");
  }
  if (there == header_of(planned)) return;
  throw UsageError("the points in " + folder + " are of runs to " + goal_text(there) + ", not to " +
                   goal_text(header_of(planned)) + "; name another --folder");
}

PlanFolder::PlanFolder(const std::string& path, const Planned& planned, bool resume)
    : path_(fs::absolute(path).lexically_normal().string()),
      points_(prepared(path_, planned, resume), header_of(planned)),
      trials_(path_) {
  if (fs::exists(path_ + kCurves)) {
    // A last line that is not whole would become one with the next.
    train::keep_lines(path_ + kCurves, [](const std::string&) { return true; });
  }
  write_file_atomically(path_ + kRecipe, train::print_recipe(planned.recipe, false));
}

PlanFolder::~PlanFolder() {
  const plan::PlanPoints& all = points();
  std::error_code ignored;
  if (all.runs.empty() && all.times.empty() && all.communication.empty() && all.elsewhere.empty())
    for (const char* name : {kRecipe, kPoints}) fs::remove(path_ + name, ignored);
}

void PlanFolder::add(const plan::PointRun& run, const Curve& curve) {
  SortedJson evaluations = SortedJson::array();
  for (const auto& [step, value] : curve) evaluations.push_back(SortedJson::array({step, value}));
  const std::string line = SortedJson{{"batch", run.batch},
                                      {"learning_rate", run.learning_rate},
                                      {"seed", run.seed},
                                      {"evaluations", evaluations}}
                               .dump() +
                           "\n";
  // First, so that every run among the points has one.
  const std::string name = path_ + kCurves;
  const Descriptor out(::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!out.open()) throw Failure("cannot write " + name + ": " + std::strerror(errno));
  append_whole(out.get(), line, name);
  points_.add(run);
}

plan::PlanPoints read_points(const std::string& folder) {
  if (!has_points(folder)) {
    throw UsageError("there are no points in " + folder +
                     ": `convoy plan batch` measures them; --folder says where they are");
  }
  return plan::points_of_text(read_text_file(folder + kPoints), folder + kPoints);
}

Closest closest_run(const std::string& folder, const Goal& goal) {
  Closest closest;
  std::ifstream file(folder + kCurves);
  std::string line;
  while (std::getline(file, line)) {
    const SortedJson row = SortedJson::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("evaluations")) continue;
    const auto batch = row.find("batch"), rate = row.find("learning_rate");
    if (batch == row.end() || !batch->is_number_integer() || rate == row.end() ||
        !rate->is_number())
      continue;  // no line of a plan
    for (const SortedJson& one : row["evaluations"]) {
      if (!one.is_array() || one.size() != 2 || !one[0].is_number() || !one[1].is_number())
        continue;
      const double value = one[1].get<double>();
      if (closest.found && goal.reached(closest.value, value)) continue;
      closest = {true, value, batch->get<std::int64_t>(), rate->get<double>(),
                 one[0].get<std::int64_t>()};
    }
  }
  return closest;
}

}  // namespace convoy::cli
