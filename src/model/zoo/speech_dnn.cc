#include "convoy/model/speech_dnn.h"

#include "convoy/base/error.h"
#include "model/zoo/chain.h"
#include "model/zoo/one_shape.h"

namespace convoy::model {

Blueprint speech_dnn(const SpeechDnnOptions& options) {
  if (options.hidden < 1 || options.depth < 1) {
    throw UsageError("speech-dnn can't have " + std::to_string(options.depth) +
                     " hidden layers of " + std::to_string(options.hidden) +
                     " units: both have to be positive");
  }
  check_one_shape("speech-dnn", options.image, options.classes);
  Blueprint net{"SpeechDnn", {options.image}, {}};
  std::int64_t in = elements_of(options.image);
  for (std::int64_t i = 1; i <= options.depth + 1; ++i) {
    const std::string number = std::to_string(i);
    Chain chain("fc" + number);
    if (i == 1) chain.add("flatten", layer::Flatten());
    const bool last = i > options.depth;
    const auto first = last ? layer::Weights::fan_in_uniform : layer::Weights::sigmoid;
    const std::int64_t out = last ? options.classes : options.hidden;
    chain.add("fc" + number, layer::Linear{.in = in, .out = out, .first = first});
    if (!last) chain.add("sigmoid" + number, layer::Sigmoid());
    net.stages.push_back(chain.done());
    in = options.hidden;
  }
  return net;
}

}  // namespace convoy::model
