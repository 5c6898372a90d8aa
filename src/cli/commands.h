// The subcommands. Each add_ function adds one to the program: its options, and what it does when
// chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace convoy::cli {

// What a subcommand wants the program to exit with. The callbacks of CLI11 return nothing.
struct Outcome {
  int exit_status = 0;
};

// Adds all of them, in the order of --help.
void add_commands(CLI::App& app, const std::vector<std::string>& rest, Outcome& outcome);

// `rest` is the command line from the first "--" on, which CLI11 has not seen; it outlives the
// parsing.
void add_run_command(CLI::App& app, const std::vector<std::string>& rest, Outcome& outcome);
void add_job_command(CLI::App& app, Outcome& outcome);
void add_report_command(CLI::App& app);
void add_serve_command(CLI::App& app, Outcome& outcome);
void add_certs_command(CLI::App& app, Outcome& outcome);
void add_status_command(CLI::App& app, Outcome& outcome);
void add_doctor_command(CLI::App& app, Outcome& outcome);
void add_pack_command(CLI::App& app);
void add_index_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_verify_command(CLI::App& app, Outcome& outcome);

// These commands need LibTorch, so that only their names and descriptions are here. The rest comes
// when one is chosen, from where LibTorch is (torch_commands.h), which takes longer to load than
// all else here.
void add_train_command(CLI::App& app, Outcome& outcome);
void add_eval_command(CLI::App& app, Outcome& outcome);
void add_predict_command(CLI::App& app, Outcome& outcome);
void add_export_command(CLI::App& app, Outcome& outcome);
void add_replica_command(CLI::App& app, Outcome& outcome);
void add_evaluator_command(CLI::App& app, Outcome& outcome);
void add_coordinator_command(CLI::App& app, Outcome& outcome);
void add_models_command(CLI::App& app, Outcome& outcome);
void add_plan_command(CLI::App& app, Outcome& outcome);
void add_bench_command(CLI::App& app, Outcome& outcome);

}  // namespace convoy::cli
