#include "convoy/model/mlp.h"

#include <string>

#include "convoy/base/error.h"
#include "model/zoo/fully_connected.h"

namespace convoy::model {

Blueprint mlp(const MlpOptions& options) {
  for (const std::int64_t extent : options.image) {
    if (extent < 1)
      throw UsageError("model 'mlp': samples of " + text_of(options.image) + " have no elements");
  }
  std::vector<std::int64_t> units = options.hidden;
  units.push_back(options.classes);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i] < 1) {
      throw UsageError("model 'mlp': layer fc" + std::to_string(i + 1) + " has " +
                       std::to_string(units[i]) + " units; it has to have at least 1");
    }
  }
  return fully_connected("MLP", options.image, units, {"relu", layer::Relu()});
}

}  // namespace convoy::model
