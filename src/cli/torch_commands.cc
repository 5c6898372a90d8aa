#include "cli/torch_commands.h"

#include <map>

namespace convoy::cli {
namespace {

using Fill = void (*)(CLI::App& command, Outcome& outcome);

const std::map<std::string, Fill>& all_fills() {
  static const std::map<std::string, Fill> all{{"train", fill_train_command},
                                               {"eval", fill_eval_command},
                                               {"predict", fill_predict_command},
                                               {"export", fill_export_command},
#ifdef CONVOY_WITH_PARAMETER_SERVER
                                               {"replica", fill_replica_command},
                                               {"evaluator", fill_evaluator_command},
                                               {"coordinator", fill_coordinator_command},
#endif
                                               {"models", fill_models_command},
                                               {"plan", fill_plan_command},
                                               {"bench", fill_bench_command}};
  return all;
}

void fill_by_name(const std::string& name, CLI::App& command, Outcome& outcome) {
  all_fills().at(name)(command, outcome);
}

}  // namespace
}  // namespace convoy::cli

extern "C" const convoy::cli::TorchCommands* convoy_torch_commands() {
  static const convoy::cli::TorchCommands commands{convoy::cli::fill_by_name,
                                                   convoy::cli::torch_rows};
  return &commands;
}
