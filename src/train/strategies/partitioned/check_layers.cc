#include "train/strategies/partitioned/check_layers.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "convoy/base/units.h"
#include "convoy/model/modules.h"

namespace convoy::train {

void check_user_layers(const comm::World& world, const model::Blueprint& blueprint,
                       const model::PartitionPlan& plan, at::ScalarType wire) {
  const auto bytes = [wire](double values) {
    const double exact = values * static_cast<double>(c10::elementSize(wire));
    return format_bytes(static_cast<std::uint64_t>(std::llround(exact)));
  };
  for (const model::Overstatement& o : check_parts(blueprint, plan)) {
    if (world.rank() != 0) continue;
    world.log().warning("layer '" + o.layer + "' states more of its input than it reads: for " +
                        o.output.text() + " partition " + std::to_string(o.partition) + " needs " +
                        o.stated.text() + " by that, of which it reads " + o.read.text() + ". Of " +
                        bytes(o.sent) + " of '" + o.value +
                        "' that partitions send each other for a sample, nobody reads " +
                        bytes(o.unread));
  }
}

}  // namespace convoy::train
