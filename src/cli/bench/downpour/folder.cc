#include "cli/bench/downpour/folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/recipe.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 4;  // of what differs

// Released when this process ends, however that happens. Where a file system has no such locks,
// there is none.
Descriptor locked(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.open()) throw Failure("cannot open " + path + ": " + std::strerror(errno));
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UsageError("--folder: another comparison is at work in " + path +
                     "; wait for it, or name another folder");
  }
  return folder;
}

std::vector<Json> rows_in(const std::string& file) {
  std::vector<Json> rows;
  if (!fs::exists(file)) return rows;
  std::istringstream lines(read_text_file(file));
  for (std::string line; std::getline(lines, line);) {
    Json row = Json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("run") && row["run"].is_string())
      rows.push_back(std::move(row));
  }
  return rows;
}

std::string text_in(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

// The folder may have been moved: its own warm start stays what it is.
bool same_weights(const train::RecipeChange& change, const Comparison& comparison) {
  return comparison.warm && change.key == "model.weights" &&
         change.mine.find(warm_weights(comparison.folder)) != std::string::npos &&
         change.theirs.find(warm_weights("")) != std::string::npos;
}

std::string value_text(const std::string& value) { return value.empty() ? "not there" : value; }

}  // namespace

ComparisonFolder::ComparisonFolder(const std::string& path) : path_(path) {
  check_own_folder("--folder", path_, kComparisonFolder);
  make_folders(path_);
  lock_ = locked(path_);
  // By which the folder is known.
  if (!fs::exists(file("rows.jsonl"))) write();
  for (const char* name : {"recipes", "logs"}) make_folders(file(name));
  rows_ = rows_in(file("rows.jsonl"));
}

const Json* ComparisonFolder::row(const std::string& run) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&run](const Json& row) { return row["run"] == run; });
  return found == rows_.end() ? nullptr : &*found;
}

void ComparisonFolder::put(Json row) {
  std::erase_if(rows_, [&row](const Json& other) { return other["run"] == row["run"]; });
  rows_.push_back(std::move(row));
  write();
}

void ComparisonFolder::forget(const std::string& run) {
  if (std::erase_if(rows_, [&run](const Json& row) { return row["run"] == run; }) > 0) write();
}

void ComparisonFolder::forget_all() {
  if (rows_.empty()) return;
  rows_.clear();
  write();
}

void ComparisonFolder::write() const {
  std::string text;
  for (const Json& one : rows_)
    text += one.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_file_atomically(file("rows.jsonl"), text);
}

bool ComparisonFolder::finished(const Arm& arm) const {
  const Json* row = this->row(arm.name);
  if (row == nullptr || !fs::exists(file(arm.name) + "/metrics.jsonl")) return false;
  const std::string state = text_in(*row, "state");
  return state == "done" || state == "target" || state == "diverged";
}

std::vector<std::string> ComparisonFolder::differences(const Arm& arm,
                                                       const Comparison& comparison) const {
  if (!fs::exists(file(arm.name) + "/recipe.toml")) return {};
  const std::string recipe = file("recipes/" + arm.name + ".toml");
  if (!fs::exists(recipe)) return {"it was started by something else"};
  std::vector<std::string> found;
  const auto compare = [&found](const std::string& key, const std::string& was,
                                const std::string& is) {
    if (was != is) found.push_back(key + " was " + value_text(was) + " and is " + value_text(is));
  };
  for (const train::RecipeChange& change :
       train::recipe_changes(train::print_recipe(arm.recipe, false), read_text_file(recipe))) {
    if (change.key == "output.folder" || same_weights(change, comparison) ||
        train::is_of_an_earlier_version(change))
      continue;
    compare(change.key, change.theirs, change.mine);
  }
  if (const Json* row = this->row(arm.name))
    compare("--hosts", text_in(*row, "hosts"), comparison.hosts);
  return found;
}

std::vector<const Arm*> to_train(const Comparison& comparison, const ComparisonFolder& folder,
                                 bool overwrite) {
  std::vector<const Arm*> wanted;
  std::string problems;
  const auto look = [&](const Arm& arm, bool anew) {
    const std::vector<std::string> differences = folder.differences(arm, comparison);
    if (!differences.empty()) {
      problems += "\n  " + arm.name + ": " + differences.front();
      for (std::size_t i = 1; i < std::min(differences.size(), kShown); ++i)
        problems += "; " + differences[i];
      if (differences.size() > kShown)
        problems += "; and " + std::to_string(differences.size() - kShown) + " more";
    }
    const bool wants = anew || !differences.empty() || !folder.finished(arm);
    if (wants) wanted.push_back(&arm);
    return wants;
  };
  const bool warmed_anew = comparison.warm && look(*comparison.warm, false);
  const auto finished = [&folder](const Arm& arm) { return folder.finished(arm); };
  if (warmed_anew && problems.empty() &&
      std::any_of(comparison.arms.begin(), comparison.arms.end(), finished))
    problems = "\n  " + comparison.warm->name + ", which they began with, is not there any more";
  for (const Arm& arm : comparison.arms) look(arm, warmed_anew);
  if (!problems.empty() && !overwrite) {
    throw UsageError("in " + folder.path() + " there are runs with other settings:" + problems +
                     "\n--overwrite trains these again; or name another --folder");
  }
  return wanted;
}

}  // namespace convoy::cli
