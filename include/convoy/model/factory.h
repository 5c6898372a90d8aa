// Models by name, for programs and recipes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/model/network.h"

namespace convoy::model {

struct ModelOptions {
  // Number of scores per image; 0 takes the number the network was published with.
  std::int64_t classes = 0;
  // See ResNetOptions; other networks refuse it.
  bool zero_init_residual = false;
  // See AlexNetOptions, whose value it is by default; networks without dropout refuse it.
  std::optional<double> dropout = std::nullopt;
};

// The names make_model knows, ascending: "alexnet", "lenet", "resnet101", "resnet18", "resnet34",
// "resnet50".
std::vector<std::string> model_names();

// Throws UsageError naming the nearest known name unless make_model knows this one.
void check_model_name(std::string_view name);

// A new network, initialized from LibTorch's default generator, in training mode, on the CPU, of
// the default floating-point type. Throws UsageError for an unknown name (it names the nearest
// known one) and for options that the network has no use for.
std::shared_ptr<Network> make_model(std::string_view name, const ModelOptions& options = {});

// The sum of the sizes of all parameters; buffers don't count, tied parameters count once.
std::int64_t parameter_count(const torch::nn::Module& module);

}  // namespace convoy::model
