#include "cli/bench/ablation.h"
#include "cli/bench/allreduce.h"
#include "cli/bench/checkpoint.h"
#include "cli/bench/ddp.h"
#include "cli/bench/downpour/downpour.h"
#include "cli/bench/loader.h"
#include "cli/bench/operators/operators.h"
#include "cli/bench/partition.h"
#include "cli/bench/server/server.h"
#include "cli/bench/shuffle.h"
#include "cli/bench/step.h"
#include "cli/torch_commands.h"

namespace convoy::cli {

void fill_bench_command(CLI::App& bench, Outcome& outcome) {
  bench.require_subcommand(1);
  add_allreduce_command(bench);
  add_shuffle_command(bench);
  add_step_command(bench);
  add_partition_command(bench);
  add_loader_command(bench);
  add_ablation_command(bench);
  add_operators_command(bench);
  add_ddp_command(bench);
  add_checkpoint_command(bench);
  add_server_command(bench);
  add_downpour_command(bench, outcome);
}

}  // namespace convoy::cli
