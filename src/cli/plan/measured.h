// A plan that `convoy plan batch` has measured, for the commands that go on from it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/plan/planned.h"
#include "convoy/plan/machine_fit.h"
#include "convoy/plan/update_fit.h"

namespace convoy::cli {

struct MeasuredWords {
  RecipeWords recipe;
  std::string folder = "plan";
  std::string level;    // of the points' targets; empty: the hardest
  std::string machine;  // a description; empty: the folder's machine.toml
};

// Adds RECIPE, --set, --folder, --level and --machine.
void add_measured_options(CLI::App& command, MeasuredWords& words);

struct Measured {
  Planned planned;  // its goal has one level
  plan::UpdateFit updates;
  plan::Machine machine;  // its name: whose the times are, where anything says it
  // How sure the machine is, where it is the one that the folder's times make.
  std::vector<plan::ComputeDraw> compute_draws = {};
  std::vector<double> delta_draws = {};
  std::vector<std::vector<double>> contention_draws = {};
  std::vector<std::string> warnings = {};  // what is to be borne in mind of the machine

  plan::MeasuredMachine with_draws() const {
    return {machine, compute_draws, delta_draws, contention_draws};
  }
  double level() const { return planned.goal.hardest(); }
};

// Throws UsageError where nothing was measured, or for another recipe or level.
Measured open_measured(const MeasuredWords& words);

// Whether the machine that a file describes is one for the recipe's network. Throws UsageError
// naming the file where its times are those of another model. Returns a warning where its gradients
// are not as large as the network's; empty where they are, or nothing is known of either.
std::string check_described(const plan::Machine& machine, const std::string& file,
                            const RecipeWords& words, const train::Recipe& recipe);

// Throws UsageError where nothing is known of communication between so many workers.
void check_communication(const Measured& measured, std::int64_t workers);

}  // namespace convoy::cli
