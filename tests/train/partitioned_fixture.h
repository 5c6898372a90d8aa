// Trainings of networks that ranks share.
#pragma once

#include "tests/train/grid_fixture.h"
#include "tests/train/plain_networks.h"

namespace convoy::train {

class PartitionedTest : public GridTest {
 protected:
  void SetUp() override {
    GridTest::SetUp();
    registry_.add_model("plain", plain_network, {{"dropout", 0.0, "its probability"}});
    registry_.add_model("auxiliary", auxiliary_network);
    registry_.add_model("branched", branched_network, {{"norm", false, "batch norm"}});
  }

  Recipe net(const std::string& name, Overrides overrides = {}) const {
    // 61 samples in batches of 12: six updates, and the last batch is one sample.
    overrides.insert(overrides.begin(), {"model.name=plain", "model.classes=8", "training.epochs=1",
                                         "evaluation.every_epochs=0", "checkpoint.every_epochs=0"});
    return recipe(name, overrides);
  }
  Recipe partitioned(const std::string& name, const GridOf& grid, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"strategy=partitioned",
                                         "grid.partitions=" + std::to_string(grid.partitions)});
    return net(name, overrides);
  }
};

}  // namespace convoy::train
