// Recipes of jobs around a parameter server, with what their plugins add.
#include "convoy/base/error.h"
#include "convoy/train/downpour_roles.h"
#include "convoy/train/registry.h"
#include "convoy/train/server_job.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_files.h"

namespace convoy::train {

ServerJob read_server_job(const std::string& recipe_file, const std::vector<std::string>& overrides,
                          const std::string& resume) {
  Registry registry;
  const RecipeText text = read_recipe_file(recipe_file);
  registry.load_plugins(plugins_of(text, overrides));
  ServerJob job;
  job.recipe = parse_recipe(text, overrides, registry.vocabulary(),
                            resume.empty() ? Files::must_exist : Files::of_a_resumed_run);
  if (!is_server_job(job.recipe.strategy)) {
    throw UsageError(recipe_file + ": the strategy is " + job.recipe.strategy +
                     "; a parameter server is for strategy = \"downpour\" or \"sandblaster\"");
  }
  const std::string folder = run_folder_of(job.recipe);
  job.recipe.output.folder = folder;
  if (resume.empty()) {
    job.plan = server_job_plan(job.recipe);
    return job;
  }
  const Origin origin = open_origin(resume, folder);
  job.resume = origin.path;
  job.plan = server_job_plan(job.recipe, &origin.manifest);
  return job;
}

Recipe recipe_of(const server::JobPlan& plan, Registry& registry) {
  const RecipeText text{plan.recipe, "the job's recipe", "/"};
  registry.load_plugins(plugins_of(text, {}));
  Recipe recipe = parse_recipe(text, {}, registry.vocabulary(), Files::of_a_resumed_run);
  if (!is_server_job(recipe.strategy)) {
    throw UsageError("the coordinator's recipe is of the strategy " + recipe.strategy +
                     ", which has no replicas");
  }
  return recipe;
}

}  // namespace convoy::train
