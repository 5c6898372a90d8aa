#include "convoy/model/factory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_set>

#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/model/alexnet.h"
#include "convoy/model/googlenet.h"
#include "convoy/model/lenet.h"
#include "convoy/model/mlp.h"
#include "convoy/model/mobilenet.h"
#include "convoy/model/resnet.h"
#include "convoy/model/small_images.h"
#include "convoy/model/speech_dnn.h"
#include "convoy/model/vgg.h"
#include "convoy/model/vit.h"

namespace convoy::model {
namespace {

using Maker = Blueprint (*)(const ModelOptions&);

// Throws unless the network called `name` has a use for these options.
void check_options(const std::string& name, const ModelOptions& options, bool residual,
                   bool dropout, bool hidden = false) {
  const std::string model = "model '" + name + "' has no ";
  if (options.zero_init_residual && !residual) {
    throw UsageError(model + "residual blocks: zero_init_residual is for resnet*");
  }
  if (options.dropout && !dropout) {
    throw UsageError(model +
                     "dropout to choose: that is for alexnet*, googlenet, mobilenet_v2, vgg11* and "
                     "vgg16*");
  }
  if (options.hidden != 0 && !hidden) {
    throw UsageError(model +
                     "width of hidden layers to choose: that is for alexnet*, speech-dnn, vgg11* "
                     "and vgg16*");
  }
  if (!options.auxiliary && !name.starts_with("googlenet"))
    throw UsageError(model + "auxiliary classifiers to leave out: those are googlenet*'s");
  if (options.hidden < 0) {
    throw UsageError("model '" + name + "': hidden is " + std::to_string(options.hidden) +
                     "; it has to be positive, or 0 for the network's own number");
  }
  if (!options.widths.empty() && name != "alexnet-one-tower")
    throw UsageError(model + "widths of convolutions to choose: that is for alexnet-one-tower");
  if (options.depth != 0 && name != "speech-dnn")
    throw UsageError(model + "number of hidden layers to choose: that is for speech-dnn");
  if (options.layers && name != "mlp")
    throw UsageError(model + "layers to choose: that is for mlp");
  if (options.local_image && name != "local-image")
    throw UsageError(model + "local filters: that is for local-image");
  if (!options.image.empty() && !made_for_one_shape(name)) {
    throw UsageError("model '" + name +
                     "' is not made for images of one shape: image is for local-image, mlp, "
                     "speech-dnn and vit_b_16");
  }
}

// Of the five convolutions.
std::array<std::int64_t, 5> widths_of(const std::vector<std::int64_t>& widths) {
  std::array<std::int64_t, 5> own = kOneTower;
  if (widths.empty()) return own;
  if (widths.size() != own.size() ||
      std::any_of(widths.begin(), widths.end(), [](std::int64_t width) { return width < 1; })) {
    throw UsageError("model 'alexnet-one-tower': widths has to be five positive numbers");
  }
  std::copy(widths.begin(), widths.end(), own.begin());
  return own;
}

// Into the options of a network with dropout.
template <typename Own>
void read_dropout(const std::string& name, const ModelOptions& options, Own& own) {
  if (options.classes > 0) own.classes = options.classes;
  if (options.dropout) own.dropout = *options.dropout;
  if (!(own.dropout >= 0 && own.dropout < 1)) {
    throw UsageError("model '" + name + "': dropout is " + std::to_string(own.dropout) +
                     "; it has to be from 0 to less than 1");
  }
}

// Into the options of an AlexNet or a VGG, what all of them have.
template <typename Own>
void read_options(const std::string& name, const ModelOptions& options, Own& own) {
  check_options(name, options, false, true, true);
  read_dropout(name, options, own);
  if (options.hidden > 0) own.hidden = options.hidden;
}

Blueprint make_alexnet(const std::string& name, const ModelOptions& options) {
  AlexNetOptions own;
  read_options(name, options, own);
  if (name == "alexnet-one-tower") own.widths = widths_of(options.widths);
  return alexnet(own);
}
Blueprint make_torchvision_alexnet(const ModelOptions& options) {
  return make_alexnet("alexnet", options);
}
Blueprint make_one_tower(const ModelOptions& options) {
  return make_alexnet("alexnet-one-tower", options);
}

Blueprint make_small_one_tower(const ModelOptions& options) {
  SmallOneTowerOptions own;
  read_options("alexnet32", options, own);
  return small_one_tower(own);
}

template <ResNetDepth depth>
Blueprint make_resnet(const ModelOptions& options) {
  check_options("resnet" + std::to_string(static_cast<int>(depth)), options, true, false);
  return resnet({
      .depth = depth,
      .classes = options.classes > 0 ? options.classes : 1000,
      .zero_init_residual = options.zero_init_residual,
  });
}

template <int layers, bool batch_norm>
Blueprint make_vgg(const ModelOptions& options) {
  VggOptions own{.layers = layers, .batch_norm = batch_norm};
  read_options("vgg" + std::to_string(layers) + (batch_norm ? "_bn" : ""), options, own);
  return vgg(own);
}

Blueprint make_mobilenet(const ModelOptions& options) {
  check_options("mobilenet_v2", options, false, true);
  MobileNetOptions own;
  read_dropout("mobilenet_v2", options, own);
  return mobilenet_v2(own);
}

Blueprint make_googlenet(const ModelOptions& options) {
  check_options("googlenet", options, false, true);
  GoogLeNetOptions own{.auxiliary = options.auxiliary};
  read_dropout("googlenet", options, own);
  return googlenet(own);
}

Blueprint make_googlenet_bn(const ModelOptions& options) {
  check_options("googlenet-bn", options, false, false);
  GoogLeNetBnOptions own{.auxiliary = options.auxiliary};
  if (options.classes > 0) own.classes = options.classes;
  return googlenet_bn(own);
}

Blueprint make_lenet(const ModelOptions& options) {
  check_options("lenet", options, false, false);
  return lenet(options.classes > 0 ? options.classes : 10);
}

Blueprint make_mlp(const ModelOptions& options) {
  check_options("mlp", options, false, false);
  MlpOptions own;
  if (options.classes > 0) own.classes = options.classes;
  if (options.layers) own.hidden = *options.layers;
  if (!options.image.empty()) own.image = options.image;
  return mlp(own);
}

// Those of convoy/model/small_images.h.
template <std::int64_t w>
Blueprint make_lenet_of_width(const ModelOptions& options) {
  check_options(w == 1 ? "lenet43k" : w == 2 ? "lenet170k" : "lenet672k", options, false, false);
  return lenet_of_width(w, options.classes > 0 ? options.classes : 10);
}

Blueprint make_lenet_for_color(const ModelOptions& options) {
  check_options("lenet487k", options, false, false);
  return lenet_for_color(options.classes > 0 ? options.classes : 10);
}

template <int layers>
Blueprint make_small_vgg(const ModelOptions& options) {
  check_options(layers == 9 ? "vgg1125k" : "vgg1863k", options, false, false);
  return small_vgg(layers, options.classes > 0 ? options.classes : 10);
}

Blueprint make_resnet20(const ModelOptions& options) {
  check_options("resnet20", options, true, false);
  return small_resnet(20, options.classes > 0 ? options.classes : 10, options.zero_init_residual);
}

Blueprint make_local_image(const ModelOptions& options) {
  check_options("local-image", options, false, false);
  LocalImageOptions own = options.local_image.value_or(LocalImageOptions());
  if (options.classes > 0) own.classes = options.classes;
  if (!options.image.empty()) own.image = options.image;
  return local_image(own);
}

Blueprint make_speech_dnn(const ModelOptions& options) {
  check_options("speech-dnn", options, false, false, true);
  SpeechDnnOptions own;
  if (options.classes > 0) own.classes = options.classes;
  if (options.hidden > 0) own.hidden = options.hidden;
  if (options.depth != 0) own.depth = options.depth;
  if (!options.image.empty()) own.image = options.image;
  return speech_dnn(own);
}

Blueprint make_vit(const ModelOptions& options) {
  check_options("vit_b_16", options, false, false);
  VisionTransformerOptions own;
  if (options.classes > 0) own.classes = options.classes;
  if (!options.image.empty()) own.image = options.image;
  return vision_transformer(own);
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> all{
      {"alexnet", make_torchvision_alexnet},
      {"alexnet-one-tower", make_one_tower},
      {"alexnet32", make_small_one_tower},
      {"googlenet", make_googlenet},
      {"googlenet-bn", make_googlenet_bn},
      {"lenet", make_lenet},
      {"lenet170k", make_lenet_of_width<2>},
      {"lenet43k", make_lenet_of_width<1>},
      {"lenet487k", make_lenet_for_color},
      {"lenet672k", make_lenet_of_width<4>},
      {"local-image", make_local_image},
      {"mlp", make_mlp},
      {"mobilenet_v2", make_mobilenet},
      {"resnet18", make_resnet<ResNetDepth::k18>},
      {"resnet20", make_resnet20},
      {"resnet34", make_resnet<ResNetDepth::k34>},
      {"resnet50", make_resnet<ResNetDepth::k50>},
      {"resnet101", make_resnet<ResNetDepth::k101>},
      {"speech-dnn", make_speech_dnn},
      {"vgg11", make_vgg<11, false>},
      {"vgg11_bn", make_vgg<11, true>},
      {"vgg1125k", make_small_vgg<9>},
      {"vgg16", make_vgg<16, false>},
      {"vgg16_bn", make_vgg<16, true>},
      {"vgg1863k", make_small_vgg<11>},
      {"vit_b_16", make_vit},
  };
  return all;
}

std::string unknown_model(std::string_view name) {
  const std::vector<std::string> names = model_names();
  const std::string near = nearest_name(name, names);
  std::string text = "unknown model '" + std::string(name) + "'";
  text += near.empty() ? "." : "; did you mean '" + near + "'?";
  text += " Known models:";
  for (const auto& known : names) text += " " + known;
  return text;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

void check_model_name(std::string_view name) {
  if (makers().find(name) == makers().end()) throw UsageError(unknown_model(name));
}

bool made_for_one_shape(std::string_view name) {
  return name == "local-image" || name == "mlp" || name == "speech-dnn" || name == "vit_b_16";
}

Blueprint make_blueprint(std::string_view name, const ModelOptions& options) {
  check_model_name(name);
  const auto found = makers().find(name);
  if (options.classes < 0) {
    throw UsageError("model '" + std::string(name) + "': classes is " +
                     std::to_string(options.classes) +
                     "; it has to be positive, or 0 for the network's own number");
  }
  return found->second(options);
}

Blueprint make_blueprint(std::string_view name, const ModelOptions& options, std::int64_t side) {
  Blueprint network = make_blueprint(name, options);
  Shape& image = network.inputs.front();
  image = {image.at(0), side, side};
  if (!made_for_one_shape(name)) return network;
  ModelOptions own = options;
  own.image = image;
  return make_blueprint(name, own);
}

std::shared_ptr<StagedNetwork> make_model(std::string_view name, const ModelOptions& options,
                                          std::optional<std::uint64_t> seed) {
  return std::make_shared<StagedNetwork>(make_blueprint(name, options),
                                         seed ? *seed : drawn_seed());
}

std::uint64_t drawn_seed() {
  return static_cast<std::uint64_t>(
      torch::randint(std::numeric_limits<std::int64_t>::max(), {1}, torch::kLong)
          .item<std::int64_t>());
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::unordered_set<const void*> seen;
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) {
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

}  // namespace convoy::model
