// The convoy program: one file per subcommand, and here only which there are.
#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace convoy::cli;
  CLI::App app("Distributed training of deep networks on LibTorch", "convoy");
  app.set_version_flag(
      "--version", [] { return version_line(); }, "Print the version and what it was built on");
  return run_command_line(
      app, argc, argv, [](CLI::App& all, const std::vector<std::string>& rest, Outcome& outcome) {
        add_train_command(all, outcome);
        add_eval_command(all, outcome);
        add_predict_command(all, outcome);
        add_export_command(all);
        add_report_command(all);
        add_run_command(all, rest, outcome);
        add_job_command(all, outcome);
        add_replica_command(all, outcome);
        add_evaluator_command(all, outcome);
        add_coordinator_command(all, outcome);
        add_serve_command(all, outcome);
        add_certs_command(all, outcome);
        add_status_command(all, outcome);
        add_models_command(all);
        add_pack_command(all);
        add_index_command(all);
        add_inspect_command(all);
        add_verify_command(all, outcome);
        add_plan_command(all, outcome);
        add_bench_command(all, outcome);
        add_doctor_command(all, outcome);
      });
}
