#include "cli/commands.h"
#include "cli/plan/subcommands.h"

namespace convoy::cli {

void add_plan_command(CLI::App& app, Outcome& outcome) {
  CLI::App* plan = app.add_subcommand(
      "plan",
      "Plan a training: which mini-batch, for which machine, which parallelism (docs/planning.md)");
  plan->require_subcommand(1);
  add_plan_batch_command(*plan, outcome);
  add_plan_machine_command(*plan);
  add_plan_check_command(*plan, outcome);
  add_plan_noise_command(*plan, outcome);
  add_plan_placement_command(*plan);
  add_plan_partition_command(*plan);
}

}  // namespace convoy::cli
