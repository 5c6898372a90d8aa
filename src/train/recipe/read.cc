// Recipes, and what is wrong with them in each key and in all together.
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/placement.h"
#include "train/recipe/automatic.h"
#include "train/recipe/document.h"
#include "train/recipe/fields.h"
#include "train/recipe/reader.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

RecipeText read_recipe_file(const std::string& path) {
  constexpr std::size_t kLimit = std::size_t{1} << 20;
  RecipeText text;
  text.text = read_text_file(path, kLimit);
  text.name = path;
  text.folder = fs::absolute(path).parent_path().string();
  return text;
}

std::vector<std::string> plugins_of(const RecipeText& text,
                                    const std::vector<std::string>& overrides) {
  const Document document(text, overrides);
  Vocabulary none;
  RecipeReader reader(document, none, Files::must_exist);
  std::vector<std::string> plugins;
  reader.field("plugins", plugins, "", Fields::Path::must_exist);
  if (!reader.problems().empty()) throw UsageError(reader.problems().front());
  return plugins;
}

Recipe parse_recipe(const RecipeText& text, const std::vector<std::string>& overrides,
                    const Vocabulary& vocabulary, Files files) {
  const Document document(text, overrides);
  RecipeReader reader(document, vocabulary, files);
  Recipe recipe;
  recipe.name = fs::path(text.name).stem().string();
  describe(recipe, reader);
  reader.other_strategies(recipe);
  reader.finish();
  const bool steps = document.overridden("training.steps");
  const bool epochs = document.overridden("training.epochs");
  if (steps && !epochs && recipe.training.steps > 0) recipe.training.epochs = 0;
  if (epochs && !steps && recipe.training.epochs > 0) recipe.training.steps = 0;
  // A key may be wrong in itself and in its company; both are said.
  const std::size_t of_reading = reader.problems().size();
  // Where it is only used, or was once, nobody makes the optimizer, or looks for the target.
  const bool trains = files != Files::may_be_missing;
  check_values(recipe, reader, vocabulary, trains, reader.problems());
  const auto ask = [&](const auto& checks, const std::string& chosen) {
    const auto check = checks.find(chosen);
    if (check != checks.end() && check->second) check->second(recipe, reader.problems());
  };
  const auto ask_kind = [&](const auto& kind) {
    if (kind && kind->check) kind->check(recipe, reader.problems());
  };
  if (reader.readable()) {
    check_patterns(recipe, vocabulary, reader.problems());
    ask(vocabulary.reader_checks, recipe.data.reader);
    ask(vocabulary.model_checks, recipe.model.name);
    const std::size_t before_task = reader.problems().size();
    ask(vocabulary.task_checks, recipe.task.name);
    if (trains && reader.problems().size() == before_task)
      ask(vocabulary.metric_checks, recipe.task.name);
    if (trains) {
      ask_kind(recipe.optimizer.kind);
      ask_kind(recipe.schedule.kind);
    }
    check_strategies(recipe, reader, vocabulary, trains, reader.problems());
  }
  reader.place_problems(of_reading);
  if (reader.problems().empty()) return recipe;
  std::string message;
  for (const std::string& problem : reader.problems()) {
    message += (message.empty() ? "" : "\n") + problem;
  }
  throw UsageError(message);
}

}  // namespace convoy::train
