#include "convoy/model/mlp.h"

#include <string>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"

namespace convoy::model {

Blueprint mlp(const MlpOptions& options) {
  for (const std::int64_t extent : options.image) {
    if (extent < 1)
      throw UsageError("model 'mlp': samples of " + text_of(options.image) + " have no elements");
  }
  Blueprint net{"MLP", {options.image}, {}};
  std::vector<std::int64_t> widths = options.hidden;
  widths.push_back(options.classes);
  std::int64_t in = elements_of(options.image);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    if (widths[i] < 1) {
      throw UsageError("model 'mlp': layer fc" + number + " has " + std::to_string(widths[i]) +
                       " units; it has to have at least 1");
    }
    Chain chain("fc" + number);
    if (i == 0) chain.add("flatten", layer::Flatten());
    chain.add("fc" + number, layer::Linear{.in = in, .out = widths[i]});
    if (i + 1 < widths.size()) chain.add("relu" + number, layer::Relu());
    net.stages.push_back(chain.done());
    in = widths[i];
  }
  return net;
}

}  // namespace convoy::model
