// Models by name, for programs and recipes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/model/local_image.h"
#include "convoy/model/stage.h"

namespace convoy::model {

struct ModelOptions {
  // Number of scores per image; 0 takes the number the network was published with.
  std::int64_t classes = 0;
  // See ResNetOptions; other networks refuse it.
  bool zero_init_residual = false;
  // See AlexNetOptions, VggOptions, MobileNetOptions and GoogLeNetOptions, whose values it is by
  // default; networks without dropout refuse it.
  std::optional<double> dropout = std::nullopt;
  // Counts the units of each hidden fully connected layer of AlexNet, VGG and speech-dnn; 0 takes
  // the network's own number. Other networks refuse it.
  std::int64_t hidden = 0;
  // Maps of the five convolutions of alexnet-one-tower; empty: 64, 192, 384, 384, 256. Other
  // networks refuse it.
  std::vector<std::int64_t> widths = {};
  // Counts the units of each hidden layer of mlp; without them, its own. Other networks refuse
  // them.
  std::optional<std::vector<std::int64_t>> layers = std::nullopt;
  // Hidden layers of speech-dnn; 0 takes its own number. Other networks refuse it.
  std::int64_t depth = 0;
  // Channels, height and width for a network that is made for images of one shape
  // (made_for_one_shape); empty: its own. Other networks refuse it.
  Shape image = {};
  // See GoogLeNetOptions; networks without auxiliary classifiers refuse to have none.
  bool auxiliary = true;
  // These are the options of local-image, but for `classes` and `image`, which stand above; other
  // networks refuse them.
  std::optional<LocalImageOptions> local_image = std::nullopt;
};

// Gives the names make_model knows, ascending: "alexnet", "alexnet-one-tower", "alexnet32",
// "googlenet", "googlenet-bn", "lenet", "local-image", "mlp", "mobilenet_v2", "resnet18",
// "speech-dnn", "vgg16_bn", those of convoy/model/small_images.h by their parameters in thousands
// ("lenet43k") or by their layers ("resnet20"), and so on.
std::vector<std::string> model_names();

// Throws UsageError naming the nearest known name unless make_model knows this one.
void check_model_name(std::string_view name);

// Says whether the shapes of its weights follow from that of its images (ModelOptions::image).
bool made_for_one_shape(std::string_view name);

// Gives the network as data. Throws UsageError for an unknown name (it names the nearest known one)
// and for options that the network has no use for.
Blueprint make_blueprint(std::string_view name, const ModelOptions& options = {});
// Makes it likewise, for images of so many rows and columns in place of the network's own.
Blueprint make_blueprint(std::string_view name, const ModelOptions& options, std::int64_t side);

// Gives a new network in training mode, on the CPU, of the default floating-point type, whose first
// weights follow from the seed (convoy/model/randomness.h); without one, a number from LibTorch's
// default generator is the seed. Throws as make_blueprint does.
std::shared_ptr<StagedNetwork> make_model(std::string_view name, const ModelOptions& options = {},
                                          std::optional<std::uint64_t> seed = std::nullopt);

// Gives a seed from LibTorch's default generator, which torch::manual_seed sets.
std::uint64_t drawn_seed();

// Gives the sum of the sizes of all parameters; buffers don't count, tied parameters count once.
std::int64_t parameter_count(const torch::nn::Module& module);

}  // namespace convoy::model
