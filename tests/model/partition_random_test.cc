// Partitions of networks made up at random.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tests/model/check_partition.h"
#include "tests/model/made_up_network.h"

namespace convoy::model {
namespace {

TEST(PartitionedNetworks, MadeUpOnesAreWholeTogether) {
  std::size_t exchanged = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const MadeUp made(seed);
    const PartitionPlan plan = plan_partition(made.net, made.net.inputs, made.rules);
    check_plan(made.net, plan);
    for (const PartitionedValue& value : plan.values) exchanged += value.exchanged ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(exchanged, 300u);
}

}  // namespace
}  // namespace convoy::model
