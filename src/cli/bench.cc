#include "cli/bench/ablation.h"
#include "cli/bench/allreduce.h"
#include "cli/bench/checkpoint.h"
#include "cli/bench/downpour/downpour.h"
#include "cli/bench/loader.h"
#include "cli/bench/partition.h"
#include "cli/bench/server/server.h"
#include "cli/bench/shuffle.h"
#include "cli/bench/step.h"
#include "cli/commands.h"

namespace convoy::cli {

void add_bench_command(CLI::App& app, Outcome& outcome) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure on this machine or cluster what Convoy promises");
  bench->require_subcommand(1);
  add_allreduce_command(*bench);
  add_shuffle_command(*bench);
  add_step_command(*bench);
  add_partition_command(*bench);
  add_loader_command(*bench);
  add_ablation_command(*bench);
  add_checkpoint_command(*bench);
  add_server_command(*bench);
  add_downpour_command(*bench, outcome);
}

}  // namespace convoy::cli
