#include "train/plugins/zoo.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/alexnet.h"
#include "convoy/model/factory.h"
#include "convoy/model/googlenet.h"
#include "convoy/model/mlp.h"
#include "convoy/model/mobilenet.h"
#include "convoy/model/small_images.h"
#include "convoy/model/speech_dnn.h"
#include "convoy/model/vgg.h"
#include "convoy/train/recipe.h"

namespace convoy::train {
namespace {

// Of units, maps and sides; more is a slip, which would end in an allocation of LibTorch's.
constexpr std::int64_t kMostUnits = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostHidden = 10'000;  // layers

std::int64_t at_most(const Options& options, const std::string& key, std::int64_t most) {
  const std::int64_t value = options.integer(key);
  if (value <= most) return value;
  throw UsageError("model.options." + key + " is " + std::to_string(value) +
                   "; it has to be at most " + std::to_string(most));
}

// Of a list that has to be `what`.
std::vector<std::int64_t> whole_numbers(const Options& options, const std::string& key,
                                        const std::string& what) {
  std::vector<std::int64_t> whole;
  for (const double number : options.numbers(key)) {
    if (!(number >= 0 && number <= static_cast<double>(kMostUnits) &&
          std::trunc(number) == number)) {
      throw UsageError("model.options." + key + " has to be " + what + ", at most " +
                       std::to_string(kMostUnits));
    }
    whole.push_back(static_cast<std::int64_t>(number));
  }
  return whole;
}

using OptionReader = void (*)(const Options& options, model::ModelOptions& own);

void read_alexnet(const Options& options, model::ModelOptions& own) {
  own.dropout = options.number("dropout");
  own.hidden = at_most(options, "hidden", kMostUnits);
}

void read_dropout(const Options& options, model::ModelOptions& own) {
  own.dropout = options.number("dropout");
}

void read_auxiliary(const Options& options, model::ModelOptions& own) {
  own.auxiliary = options.flag("auxiliary");
}

void read_googlenet(const Options& options, model::ModelOptions& own) {
  read_dropout(options, own);
  read_auxiliary(options, own);
}

void read_one_tower(const Options& options, model::ModelOptions& own) {
  read_alexnet(options, own);
  own.widths = whole_numbers(options, "widths", "five positive whole numbers");
}

void read_resnet(const Options& options, model::ModelOptions& own) {
  own.zero_init_residual = options.flag("zero_init_residual");
}

void read_speech_dnn(const Options& options, model::ModelOptions& own) {
  own.hidden = at_most(options, "hidden", kMostUnits);
  own.depth = at_most(options, "depth", kMostHidden);
}

void read_mlp(const Options& options, model::ModelOptions& own) {
  own.layers = whole_numbers(options, "hidden", "positive whole numbers");
}

// A number for each stage: the list's, or the preset's where that is empty.
void read_stages(const Options& options, const std::string& key, std::size_t in_preset,
                 std::int64_t model::LocalStage::*number, std::vector<model::LocalStage>& stages) {
  const std::string what =
      std::to_string(stages.size()) + " positive whole numbers, one for each stage";
  const std::vector<std::int64_t> values = whole_numbers(options, key, what);
  if (values.empty() && stages.size() == in_preset) return;
  if (values.size() != stages.size())
    throw UsageError("model.options." + key + " has to be " + what);
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].*number = values[i];
}

void read_local_image(const Options& options, model::ModelOptions& own) {
  model::LocalImageOptions local = model::local_image_preset(options.text("preset"));
  local.filter = at_most(options, "filter", kMostUnits);
  local.norm = at_most(options, "norm", kMostUnits);
  const std::size_t in_preset = local.stages.size(), maps = options.numbers("maps").size();
  if (maps > 0) local.stages.resize(maps);
  read_stages(options, "maps", in_preset, &model::LocalStage::maps, local.stages);
  read_stages(options, "strides", in_preset, &model::LocalStage::stride, local.stages);
  read_stages(options, "pools", in_preset, &model::LocalStage::pool, local.stages);
  read_stages(options, "pool_strides", in_preset, &model::LocalStage::pool_stride, local.stages);
  own.local_image = std::move(local);
}

// What a network can be told, and how that is read; nothing for most.
struct NetworkOptions {
  std::vector<Option> options;
  OptionReader read = nullptr;
};

NetworkOptions options_of_alexnet(const std::string& name) {
  const bool small = name == "alexnet32", one_tower = name == "alexnet-one-tower";
  const std::int64_t hidden =
      small ? model::SmallOneTowerOptions().hidden : model::AlexNetOptions().hidden;
  NetworkOptions own{{{"dropout", model::AlexNetOptions().dropout,
                       "probability of dropping an input of a hidden fully connected layer"},
                      {"hidden", hidden, "units of a hidden fully connected layer"}},
                     one_tower ? read_one_tower : read_alexnet};
  if (one_tower) {
    own.options.push_back({"widths",
                           std::vector<double>(model::kOneTower.begin(), model::kOneTower.end()),
                           "maps of the five convolutions"});
  }
  return own;
}

NetworkOptions options_of_vgg() {
  const model::VggOptions own;
  return {{{"dropout", own.dropout,
            "probability of dropping an output of a hidden fully connected layer"},
           {"hidden", own.hidden, "units of a hidden fully connected layer"}},
          read_alexnet};
}

NetworkOptions options_of_googlenet(bool dropout) {
  const model::GoogLeNetOptions own;
  NetworkOptions all{{{"auxiliary", own.auxiliary,
                       "auxiliary classifiers, whose losses count 0.3 each in training"}},
                     dropout ? read_googlenet : read_auxiliary};
  if (dropout) {
    all.options.push_back({"dropout", own.dropout,
                           "probability of dropping an input of the last fully connected layer"});
  }
  return all;
}

NetworkOptions options_of_local_image() {
  const model::LocalImageOptions own;
  const std::vector<double> none;
  return {{{"preset", std::string("80M"), "80M, 330M or 1.7B: by parameters; see docs/models.md"},
           {"maps", none, "filters of a position, for each stage; empty: the preset's"},
           {"strides", none, "of filters, for each stage; empty: the preset's"},
           {"pools", none, "side of the L2 pool's window, for each stage; empty: the preset's"},
           {"pool_strides", none, "of L2 pools, for each stage; empty: the preset's"},
           {"filter", own.filter, "side of a filter"},
           {"norm", own.norm, "side of the normalization's window, odd"}},
          read_local_image};
}

NetworkOptions options_of(const std::string& name) {
  if (name.starts_with("alexnet")) return options_of_alexnet(name);
  if (name.starts_with("vgg11_") || name.starts_with("vgg16") || name == "vgg11")
    return options_of_vgg();
  if (name.starts_with("googlenet")) return options_of_googlenet(name == "googlenet");
  if (name == "mobilenet_v2") {
    return {{{"dropout", model::MobileNetOptions().dropout,
              "probability of dropping an input of the fully connected layer"}},
            read_dropout};
  }
  if (name.starts_with("resnet")) {
    return {
        {{"zero_init_residual", false, "start each block as the identity: last batch norm at 0"}},
        read_resnet};
  }
  if (name == "speech-dnn") {
    const model::SpeechDnnOptions own;
    return {{{"hidden", own.hidden, "units of each hidden layer"},
             {"depth", own.depth, "hidden layers"}},
            read_speech_dnn};
  }
  if (name == "mlp") {
    const std::vector<std::int64_t> hidden = model::MlpOptions().hidden;
    return {{{"hidden", std::vector<double>(hidden.begin(), hidden.end()),
              "units of each hidden layer"}},
            read_mlp};
  }
  if (name == "local-image") return options_of_local_image();
  return {};
}

// What is wrong with [model.options] whatever the data are: that is said with all else in a recipe,
// and not when they are open. Whether local filters fit an image, the image has to say.
void check_network(const std::string& name, OptionReader read, const Recipe& recipe,
                   std::vector<std::string>& problems) {
  try {
    model::ModelOptions options;
    options.classes = std::max<std::int64_t>(recipe.model.classes, 0);
    read(recipe.model.options, options);
    if (!options.local_image) model::make_blueprint(name, options);
  } catch (const UsageError& error) {
    const std::string text = error.what();
    problems.push_back((text.starts_with("model.options") ? "" : "model.options: ") + text);
  }
}

}  // namespace

void add_zoo(Registry& registry) {
  for (const std::string& name : model::model_names()) {
    const NetworkOptions own = options_of(name);
    Vocabulary::Check check;
    if (own.read != nullptr) {
      check = [name, read = own.read](const Recipe& recipe, std::vector<std::string>& problems) {
        check_network(name, read, recipe, problems);
      };
    }
    registry.add_model(
        name,
        [name, read = own.read](const ModelRequest& request) {
          model::ModelOptions options;
          options.classes = request.classes;
          const data::Shape& image = request.image;
          if (model::made_for_one_shape(name) && image.channels > 0)
            options.image = {image.channels, image.height, image.width};
          if (read != nullptr) read(request.options, options);
          return model::make_blueprint(name, options);
        },
        own.options, std::move(check));
  }
}

}  // namespace convoy::train
