#include "server/coordinator/batch_objective.h"

#include <limits>

namespace convoy::server::coordinator {

double BatchObjective::evaluate(const optim::VectorName& weights) {
  const EvaluationId id{weights.iteration, weights.evaluation};
  not_finite_.reset();
  shards_.open(id, size_.portions);
  replicas_.begin(id);
  const double scale = 1 / static_cast<double>(size_.samples);
  std::vector<optim::Term> also;
  if (size_.l2 != 0) also.push_back({size_.l2, weights});
  for (;;) {
    const auto outcome = replicas_.wait(id);
    if (!outcome.finite) {
      not_finite_ = outcome.not_finite;
      return std::numeric_limits<double>::infinity();
    }
    const std::vector<PortionRange> missing = shards_.seal(id, scale, also);
    if (missing.empty()) {
      double loss = outcome.loss * scale;
      if (size_.l2 != 0) loss += size_.l2 / 2 * shards_.square(weights);
      return loss;
    }
    ++repeated_;
    replicas_.missing(missing);
  }
}

}  // namespace convoy::server::coordinator
