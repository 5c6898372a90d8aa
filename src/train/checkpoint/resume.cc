#include "train/checkpoint/resume.h"

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/checkpoint/resume_rules.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// What a run writes into its folder, besides its recipe and lock.
constexpr const char* kParts[] = {"metrics.jsonl", "tensorboard", "checkpoints", "samples"};

bool holds_a_run(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder + "/metrics.jsonl", error)) return true;
  const bool empty = fs::is_empty(checkpoints_in(folder), error);
  return !error && !empty;
}

// At any depth.
bool is_inside(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void write_recipe(const Recipe& recipe) {
  write_file_atomically(recipe.output.folder + "/recipe.toml", print_recipe(recipe, true));
}

}  // namespace

std::string checkpoints_in(const std::string& folder) { return folder + "/checkpoints"; }

void check_run_folder(const std::string& folder, bool overwrite, const std::string& resume) {
  if (overwrite || !resume.empty() || !holds_a_run(folder)) return;
  throw UsageError(folder +
                   " holds a run already: --resume goes on with it, --overwrite removes it, "
                   "--set output.folder=... names another folder");
}

Origin open_origin(const std::string& which, const std::string& folder) {
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  Origin origin;
  origin.path = which == "latest" ? checkpoints.newest() : which;
  if (origin.path.empty()) {
    throw UsageError("--resume: there is no checkpoint in " + checkpoints.folder());
  }
  if (holds_a_run(folder) && !is_inside(origin.path, checkpoints.folder())) {
    throw UsageError(folder + " holds a run that " + origin.path +
                     " is no checkpoint of: to go on from it, name a folder of its own with --set "
                     "output.folder=...");
  }
  origin.manifest = open_checkpoint(origin.path);
  return origin;
}

void check_origin(const Origin& origin, const Recipe& recipe, const Vocabulary& vocabulary,
                  const data::Dataset& training_data, const Log* log) {
  const Manifest& saved = origin.manifest;
  const auto refuse = [&origin](const std::string& why) {
    throw UsageError(origin.path + " can't be resumed with this recipe: " + why);
  };
  if (saved.samples != training_data.size() ||
      saved.data_fingerprint != training_data.fingerprint()) {
    refuse("data.train is another data set (" + std::to_string(saved.samples) + " samples then, " +
           std::to_string(training_data.size()) + " now, or other files)");
  }
  // Where its files were then doesn't matter.
  const Recipe before = parse_recipe({saved.recipe, "the checkpoint's recipe", "/"}, {}, vocabulary,
                                     Files::may_be_missing);
  const std::string now = print_recipe(recipe, false), then = print_recipe(before, false);
  for (const RecipeChange& change : recipe_changes(now, then)) {
    const ResumeKey* key = find_resume_key(change.key);
    if (key == nullptr || key->rule != ResumeRule::fixed) continue;
    refuse(change.key + " is " + change.mine + ", in the checkpoint it is " + change.theirs + "; " +
           std::string(key->why));
  }
  const std::string changed = recipe_difference(now, then, "in the checkpoint");
  if (!changed.empty() && log != nullptr) log->info("resuming with other values: " + changed);
}

void prepare_new_run(const Recipe& recipe) {
  for (const char* part : kParts) fs::remove_all(recipe.output.folder + "/" + part);
  write_recipe(recipe);
}

std::string prepare_resumed_run(const Recipe& recipe, const Origin& origin) {
  const std::string& folder = recipe.output.folder;
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  const std::string aside = checkpoints.set_aside_after(origin.manifest.step);
  const std::string metrics = folder + "/metrics.jsonl";
  if (!aside.empty() && fs::exists(metrics)) fs::copy_file(metrics, aside + "/metrics.jsonl");
  write_recipe(recipe);
  return aside;
}

}  // namespace convoy::train
