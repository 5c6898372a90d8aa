#include "cli/commands.h"

namespace convoy::cli {

void add_commands(CLI::App& app, const std::vector<std::string>& rest, Outcome& outcome) {
  add_train_command(app, outcome);
  add_eval_command(app, outcome);
  add_predict_command(app, outcome);
  add_export_command(app, outcome);
  add_report_command(app);
  add_run_command(app, rest, outcome);
  add_job_command(app, outcome);
  add_replica_command(app, outcome);
  add_evaluator_command(app, outcome);
  add_coordinator_command(app, outcome);
  add_serve_command(app, outcome);
  add_certs_command(app, outcome);
  add_status_command(app, outcome);
  add_models_command(app, outcome);
  add_pack_command(app);
  add_index_command(app);
  add_inspect_command(app);
  add_verify_command(app, outcome);
  add_plan_command(app, outcome);
  add_bench_command(app, outcome);
  add_doctor_command(app, outcome);
}

}  // namespace convoy::cli
