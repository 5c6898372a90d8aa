// What the program says of the processes of a job that need LibTorch, before one was chosen.
#include "cli/commands.h"
#include "cli/torch_commands.h"

namespace convoy::cli {

void add_replica_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "replica",
            "Train with others on a parameter server, as the coordinator's recipe says\n"
            "(docs/downpour.md, docs/sandblaster.md). -n: as many ranks as grid.partitions.\n"
            "Told to stop, it leaves in order.",
            outcome);
}

void add_evaluator_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "evaluator",
            "Evaluate what replicas train on a parameter server, and write its checkpoints\n"
            "(docs/downpour.md, docs/sandblaster.md). Told to stop, it writes one and exits with\n"
            "status 75; another evaluator goes on.",
            outcome);
}

// Its recipe may name plugins.
void add_coordinator_command(CLI::App& app, Outcome& outcome) {
  add_later(
      app, "coordinator",
      "Coordinate a job of strategy \"downpour\" or \"sandblaster\": who serves which shard, who "
      "has which "
      "samples\n"
      "Started again with the same folder (or etcd) it goes on with what is there; the recipe "
      "has to be the\nsame. It ends when the job does.",
      outcome);
}

}  // namespace convoy::cli
