#include "cli/bench/step_recipe.h"

#include <algorithm>
#include <memory>

#include "base/toml_text.h"
#include "cli/bench/made_up_images.h"
#include "convoy/base/error.h"
#include "convoy/data/epoch_order.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/factory.h"

namespace convoy::cli {
namespace {

constexpr const char* kReader = "made_up";

// The reader's keys: the network's own image, and its classes.
std::string data_of(const std::string& model) {
  const model::Blueprint network = model::make_blueprint(model, {});
  const model::Shape& image = network.inputs.front();
  const model::Shape scores = model::shapes_of(network, network.inputs).back().outputs.front();
  return "channels = " + std::to_string(image.at(0)) + "\nheight = " + std::to_string(image.at(1)) +
         "\nwidth = " + std::to_string(image.at(2)) +
         "\nclasses = " + std::to_string(scores.back());
}

// Other optimizers than the usual one don't have all of its keys.
bool has_own_optimizer(const StepWords& words) {
  return std::any_of(
      words.overrides.begin(), words.overrides.end(),
      [](const std::string& override) { return override.starts_with("optimizer.name="); });
}

std::string text_of(const StepWords& words, std::int64_t batch) {
  return "strategy = " + toml_string(words.strategy) +
         "\nprecision = " + toml_string(words.precision) +
         "\n[model]\nname = " + toml_string(words.model) +
         "\nchannels_last = " + (words.channels_last ? "true" : "false") +
         "\n[data]\nreader = " + toml_string(kReader) +
         "\nmean = [0.5]\ndeviation = [0.25]\n[data.train]\n" + data_of(words.model) +
         // Labels are chance: a rate that changes weights, but not where they are.
         "\n[optimizer]\nlr = 1e-4\nweight_decay = 1e-4\n" +
         (has_own_optimizer(words) ? "" : "momentum = 0.9\n") +
         "[training]\nbatch = " + std::to_string(batch) +
         "\nsteps = 1000000000\n[checkpoint]\nevery_epochs = 0\n";
}

void check_words(const StepWords& words) {
  if (words.strategy == "hybrid") return;
  const bool partitioned = words.strategy == "partitioned";
  const auto refuse = [&](bool given, const char* option, const char* strategies = "hybrid") {
    if (given) {
      throw UsageError(std::string(option) + " is for --strategy " + strategies + ", not for " +
                       words.strategy);
    }
  };
  refuse(!words.scheme.empty(), "--scheme");
  refuse(words.senders > 0, "--senders");
  refuse(words.passes > 0, "--passes");
  refuse(words.partitions > 0 && !partitioned, "--partitions", "hybrid and partitioned");
  refuse(words.variable_batch, "--variable-batch");
}

// Made-up images are of the size and the channels that the network is to see, where a key says
// those: nothing has to be cut out of them.
void fit_images(const std::vector<std::string>& overrides, train::Recipe& recipe) {
  if (recipe.data.reader != kReader) return;
  const auto given = [&overrides](const std::string& key) {
    return std::any_of(overrides.begin(), overrides.end(), [&key](const std::string& override) {
      return override.starts_with(key + "=");
    });
  };
  const auto fit = [&](const char* key, std::int64_t value) {
    if (value > 0 && !given(std::string("data.train.") + key)) recipe.data.train.set(key, value);
  };
  fit("height", recipe.data.size);
  fit("width", recipe.data.size);
  fit("channels", recipe.data.channels);
}

train::Recipe parse(StepWords words, std::int64_t batch, const std::vector<std::string>& overrides,
                    const train::Registry& registry) {
  const auto parse_words = [&] {
    return train::parse_recipe({text_of(words, batch), "bench step"}, overrides,
                               registry.vocabulary());
  };
  train::Recipe recipe = parse_words();
  fit_images(overrides, recipe);
  if (recipe.automatic()) {
    throw UsageError(
        "the recipe leaves its placement to the planner, and there is none here to choose: leave "
        "\"auto\" out (`convoy bench step` measures what --strategy says, `convoy plan placement` "
        "compares all)");
  }
  if (recipe.model.name == words.model) return recipe;
  // Images are those that the network takes which is trained.
  words.model = recipe.model.name;
  recipe = parse_words();
  fit_images(overrides, recipe);
  return recipe;
}

}  // namespace

void add_made_up_images(train::Registry& registry) {
  registry.add_reader(kReader,
                      [](const train::Options& o) {
                        const auto side = [&o](const char* key) {
                          return static_cast<int>(o.integer(key));
                        };
                        return std::make_shared<MadeUpImages>(
                            data::Shape{side("channels"), side("height"), side("width")},
                            static_cast<std::size_t>(o.integer("classes")),
                            static_cast<std::size_t>(o.integer("images")));
                      },
                      {{"channels", std::int64_t{3}, "of an image"},
                       {"height", std::int64_t{224}, "of an image, in pixels"},
                       {"width", std::int64_t{224}, "of an image, in pixels"},
                       {"classes", std::int64_t{1000}, "that labels are of"},
                       {"images", std::int64_t{1'000'000}, "of an epoch"}});
}

train::Recipe step_recipe(const StepWords& words, int ranks, const train::Registry& registry) {
  check_words(words);
  std::vector<std::string> overrides;
  const auto set = [&](const std::string& key, const std::string& value) {
    overrides.push_back(key + "=" + value);
  };
  const bool hybrid = words.strategy == "hybrid";
  if (hybrid || words.strategy == "partitioned") {
    const std::int64_t partitions = words.partitions > 0 ? words.partitions : ranks;
    set("grid.partitions", std::to_string(partitions));
  }
  if (hybrid) {
    if (!words.scheme.empty()) set("hybrid.scheme", toml_string(words.scheme));
    if (words.senders > 0) set("hybrid.senders", std::to_string(words.senders));
    if (words.passes > 0) set("hybrid.passes", std::to_string(words.passes));
    if (words.variable_batch) set("hybrid.variable_batch", "true");
  }
  if (!words.bucket_bytes.empty()) set(words.strategy + ".bucket", toml_string(words.bucket_bytes));
  if (!words.compute_in_buckets) set(words.strategy + ".compute_in_buckets", "false");
  overrides.insert(overrides.end(), words.overrides.begin(), words.overrides.end());
  const std::int64_t batch = words.batch > 0 ? words.batch : words.batch_per_rank * ranks;
  return parse(words, batch, overrides, registry);
}

std::int64_t images_of_rank(const train::Recipe& recipe, int rank, int ranks) {
  const auto batch = static_cast<std::size_t>(recipe.training.batch);
  return static_cast<std::int64_t>(data::even_share({0, batch}, rank, ranks).size());
}

train::Recipe independent_recipe(const StepWords& words, std::int64_t images, int threads,
                                 const train::Registry& registry) {
  std::vector<std::string> overrides = words.overrides;
  overrides.push_back("threads=" + std::to_string(threads));
  overrides.push_back("training.batch=" + std::to_string(images));
  return parse(words, images, overrides, registry);
}

}  // namespace convoy::cli
