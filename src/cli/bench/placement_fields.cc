#include "cli/bench/placement_fields.h"

#include <string>

namespace convoy::cli {

nlohmann::ordered_json placement_fields(const plan::Placement& placement, int ranks) {
  if (placement.kind != plan::Parallelism::hybrid) return nlohmann::ordered_json::object();
  const std::string scheme = scheme_of(placement);
  return {{"scheme", scheme},
          {"senders", scheme == "bc" ? placement.senders : 0},
          {"passes", placement.passes},
          {"variable_batch", placement.variable_batch},
          {"partitions", placement.partitions},
          {"replicas", ranks / placement.partitions}};
}

}  // namespace convoy::cli
