#include "cli/plan/subcommands.h"
#include "cli/torch_commands.h"

namespace convoy::cli {

void fill_plan_command(CLI::App& plan, Outcome& outcome) {
  plan.require_subcommand(1);
  add_plan_batch_command(plan, outcome);
  add_plan_machine_command(plan);
  add_plan_check_command(plan, outcome);
  add_plan_noise_command(plan, outcome);
  add_plan_placement_command(plan);
  add_plan_partition_command(plan);
}

}  // namespace convoy::cli
