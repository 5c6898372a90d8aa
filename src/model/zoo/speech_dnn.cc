#include "convoy/model/speech_dnn.h"

#include <vector>

#include "convoy/base/error.h"
#include "model/zoo/fully_connected.h"
#include "model/zoo/one_shape.h"

namespace convoy::model {

Blueprint speech_dnn(const SpeechDnnOptions& options) {
  if (options.hidden < 1 || options.depth < 1) {
    throw UsageError("speech-dnn can't have " + std::to_string(options.depth) +
                     " hidden layers of " + std::to_string(options.hidden) +
                     " units: both have to be positive");
  }
  check_one_shape("speech-dnn", options.image, options.classes);
  std::vector<std::int64_t> units(static_cast<std::size_t>(options.depth), options.hidden);
  units.push_back(options.classes);
  return fully_connected("SpeechDnn", options.image, units,
                         {"sigmoid", layer::Sigmoid(), layer::Weights::sigmoid});
}

}  // namespace convoy::model
