#include "train/checkpoint/resume.h"

#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

void write_recipe(const Recipe& recipe) {
  make_folders(recipe.output.folder);
  write_file_atomically(recipe.output.folder + "/recipe.toml", print_recipe(recipe, true));
}

}  // namespace

Origin find_origin(const std::string& which, const CheckpointFolder& checkpoints,
                   const Recipe& recipe, const Vocabulary& vocabulary,
                   const data::Dataset& training_data, const Log* log) {
  Origin origin;
  origin.path = which == "latest" ? checkpoints.newest() : which;
  if (origin.path.empty()) {
    throw UsageError("--resume: there is no checkpoint in " + checkpoints.folder());
  }
  origin.manifest = open_checkpoint(origin.path);
  const Manifest& saved = origin.manifest;
  const auto refuse = [&origin](const std::string& why) {
    throw UsageError(origin.path + " can't be resumed with this recipe: " + why);
  };
  if (saved.strategy != recipe.strategy) refuse("it was written by the strategy " + saved.strategy);
  if (saved.model != recipe.model.name) refuse("its model is " + saved.model);
  if (saved.samples != training_data.size() ||
      saved.data_fingerprint != training_data.fingerprint()) {
    refuse("data.train is another data set (" + std::to_string(saved.samples) + " samples then, " +
           std::to_string(training_data.size()) + " now, or other files)");
  }
  const Recipe before =
      parse_recipe({saved.recipe, "the checkpoint's recipe", "/"}, {}, vocabulary);
  if (before.seed != recipe.seed) {
    refuse("seed is " + std::to_string(recipe.seed) + ", in the checkpoint it is " +
           std::to_string(before.seed) + "; the order of samples depends on it");
  }
  const std::string changed = recipe_difference(print_recipe(recipe, false),
                                                print_recipe(before, false), "in the checkpoint");
  if (!changed.empty() && log != nullptr) log->info("resuming with other values: " + changed);
  return origin;
}

void prepare_new_run(const Recipe& recipe, bool overwrite) {
  const std::string& folder = recipe.output.folder;
  if (fs::exists(folder + "/metrics.jsonl")) {
    if (!overwrite) {
      throw UsageError(folder +
                       " holds a run already: --resume goes on with it, --overwrite removes it, "
                       "--set output.folder=... names another folder");
    }
    for (const char* part : {"metrics.jsonl", "tensorboard", "checkpoints"}) {
      fs::remove_all(folder + "/" + part);
    }
  }
  write_recipe(recipe);
}

void prepare_resumed_run(const Recipe& recipe, const CheckpointFolder& checkpoints,
                         const Origin& origin) {
  checkpoints.remove_after(origin.manifest.step, {origin.path});
  write_recipe(recipe);
}

}  // namespace convoy::train
