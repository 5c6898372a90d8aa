#include "convoy/model/factory.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "convoy/base/error.h"
#include "convoy/model/lenet.h"
#include "convoy/model/resnet.h"

namespace convoy::model {
namespace {

using Maker = std::shared_ptr<Network> (*)(const ModelOptions&);

template <ResNetDepth depth>
std::shared_ptr<Network> make_resnet(const ModelOptions& options) {
  return std::make_shared<ResNet>(ResNetOptions{
      .depth = depth,
      .classes = options.classes > 0 ? options.classes : 1000,
      .zero_init_residual = options.zero_init_residual,
  });
}

std::shared_ptr<Network> make_lenet(const ModelOptions& options) {
  if (options.zero_init_residual) {
    throw UsageError("model 'lenet' has no residual blocks: zero_init_residual is for resnet*");
  }
  return std::make_shared<LeNet>(options.classes > 0 ? options.classes : 10);
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> all{
      {"lenet", make_lenet},
      {"resnet18", make_resnet<ResNetDepth::k18>},
      {"resnet34", make_resnet<ResNetDepth::k34>},
      {"resnet50", make_resnet<ResNetDepth::k50>},
      {"resnet101", make_resnet<ResNetDepth::k101>},
  };
  return all;
}

// Levenshtein's distance, by rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string unknown_model(std::string_view name) {
  const std::vector<std::string> names = model_names();
  const auto nearest = std::min_element(names.begin(), names.end(), [&](auto& a, auto& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
  std::string text =
      "unknown model '" + std::string(name) + "'; did you mean '" + *nearest + "'? Known models:";
  for (const auto& known : names) text += " " + known;
  return text;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

std::shared_ptr<Network> make_model(std::string_view name, const ModelOptions& options) {
  const auto found = makers().find(name);
  if (found == makers().end()) throw UsageError(unknown_model(name));
  if (options.classes < 0) {
    throw UsageError("model '" + std::string(name) + "': classes is " +
                     std::to_string(options.classes) +
                     "; it has to be positive, or 0 for the network's own number");
  }
  return found->second(options);
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
