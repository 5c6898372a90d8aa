#include "convoy/model/local_image.h"

#include <string>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"
#include "model/zoo/one_shape.h"

namespace convoy::model {
namespace {

void check_numbers(const LocalImageOptions& options) {
  bool positive = options.filter > 0 && options.norm > 0 && !options.stages.empty();
  for (const LocalStage& s : options.stages)
    positive = positive && s.maps > 0 && s.stride > 0 && s.pool > 0 && s.pool_stride > 0;
  if (positive) return;
  throw UsageError(
      "local-image needs a stage or more, and positive numbers for its filters, maps, pools, "
      "strides and normalization");
}

}  // namespace

Blueprint local_image(const LocalImageOptions& options) {
  check_numbers(options);
  check_one_shape("local-image", options.image, options.classes);
  Blueprint net{"LocalImage", {options.image}, {}};
  Shape shape = options.image;
  for (std::size_t i = 0; i < options.stages.size(); ++i) {
    const LocalStage& s = options.stages[i];
    const std::string number = std::to_string(i + 1);
    const layer::LocallyConnected filters{.in = shape.at(0),
                                          .out = s.maps,
                                          .image = {shape.at(1), shape.at(2)},
                                          .kernel = {options.filter, options.filter},
                                          .stride = {s.stride, s.stride},
                                          .first = layer::Weights::xavier};
    const layer::LocalContrastNorm norm{.window = {options.norm, options.norm},
                                        .deviation = static_cast<double>(options.norm) / 4};
    net.stages.push_back(
        Chain("local" + number)
            .add("filter" + number, filters)
            .add("pool" + number, layer::L2Pool{.kernel = {s.pool, s.pool},
                                                .stride = {s.pool_stride, s.pool_stride}})
            .add("norm" + number, norm)
            .done());
    shape = shapes_of(net.stages.back(), {shape}).outputs.front();
  }
  net.stages.push_back(Chain("head")
                           .add("flatten", layer::Flatten())
                           .add("fc", layer::Linear{elements_of(shape), options.classes})
                           .done());
  return net;
}

LocalImageOptions local_image_preset(std::string_view name) {
  if (name == "80M") return {};
  if (name == "330M") return {.stages = {{16, 1, 3, 1}, {16, 1, 3, 1}, {16, 1, 18, 17}}};
  if (name == "1.7B") return {.stages = {{36, 1, 3, 1}, {36, 1, 3, 1}, {36, 1, 13, 4}}};
  throw UsageError("local-image has no preset '" + std::string(name) +
                   "'; there are 80M, 330M and 1.7B");
}

}  // namespace convoy::model
