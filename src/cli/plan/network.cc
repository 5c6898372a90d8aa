#include "cli/plan/network.h"

#include "convoy/base/error.h"
#include "convoy/model/factory.h"

namespace convoy::cli {

model::Blueprint network_of(const train::Recipe& recipe, const train::Registry& registry) {
  const train::TaskFacts facts;
  const auto side = [&recipe](const char* key) {
    return static_cast<int>(recipe.data.train.integer(key));
  };
  const std::int64_t classes =
      recipe.model.classes > 0 ? recipe.model.classes : recipe.data.train.integer("classes");
  auto network = registry.blueprint(recipe.model.name,
                                    {.classes = classes,
                                     .image = {side("channels"), side("height"), side("width")},
                                     .options = recipe.model.options,
                                     .facts = facts,
                                     .seed = static_cast<std::uint64_t>(recipe.seed)});
  if (!network)
    throw UsageError("the model '" + recipe.model.name +
                     "' is code: nothing is known of its layers");
  return *network;
}

std::vector<model::Shape> inputs_of(const train::Recipe& recipe) {
  const train::Options& data = recipe.data.train;
  return {{data.integer("channels"), data.integer("height"), data.integer("width")}};
}

std::string names_of_networks() {
  std::string names;
  for (const std::string& name : model::model_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace convoy::cli
