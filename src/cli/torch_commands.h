// The commands that need LibTorch. They are in a library of their own, libconvoy_commands, which
// the program opens when one of them was chosen: the others start in a twentieth of the time.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/doctor/rows.h"

namespace convoy::cli {

// Each gives a command, which has its name and description, its options, subcommands, and what it
// does.
void fill_train_command(CLI::App& command, Outcome& outcome);
void fill_eval_command(CLI::App& command, Outcome& outcome);
void fill_predict_command(CLI::App& command, Outcome& outcome);
void fill_export_command(CLI::App& command, Outcome& outcome);
void fill_replica_command(CLI::App& command, Outcome& outcome);
void fill_evaluator_command(CLI::App& command, Outcome& outcome);
void fill_coordinator_command(CLI::App& command, Outcome& outcome);
void fill_models_command(CLI::App& command, Outcome& outcome);
// The parent of what plans.
void fill_plan_command(CLI::App& plan, Outcome& outcome);
// The parent of the benchmarks.
void fill_bench_command(CLI::App& bench, Outcome& outcome);

// What the library has for the program.
struct TorchCommands {
  // Calls the function above for this name.
  void (*fill)(const std::string& name, CLI::App& command, Outcome& outcome);
  DoctorRows (*doctor_rows)();
};

// Opens the library when it is called first. Throws Failure, of one line, where that can't be done.
const TorchCommands& torch_commands();

// Adds a command of which that library has all but this.
void add_later(CLI::App& app, const char* name, const char* description, Outcome& outcome);

}  // namespace convoy::cli

// The one function that the program looks for in the library.
extern "C" const convoy::cli::TorchCommands* convoy_torch_commands();
