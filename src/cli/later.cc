// What the program says of the commands that need LibTorch before one of them was chosen.
#include "cli/commands.h"
#include "cli/torch_commands.h"

namespace convoy::cli {

void add_later(CLI::App& app, const char* name, const char* description, Outcome& outcome) {
  CLI::App* command = app.add_subcommand(name, description);
  command->preparse_callback([command, &outcome](std::size_t) {
    torch_commands().fill(command->get_name(), *command, outcome);
  });
}

void add_train_command(CLI::App& app, Outcome& outcome) {
  add_later(
      app, "train",
      "Train a network as a recipe says (docs/recipes.md)\n"
      "Metrics and checkpoints go to runs/<recipe's name>. When told to stop (SIGTERM, SIGINT, "
      "SIGUSR1)\n"
      "it writes a checkpoint and exits with status 75; --resume goes on from there.",
      outcome);
}

void add_eval_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "eval", "Evaluate a run, a checkpoint, or a recipe with model.weights", outcome);
}

void add_predict_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "predict",
            "What a trained network makes of inputs (the classes of JPEG or PNG pictures, or what "
            "else its task predicts), or of the samples of a data set",
            outcome);
}

void add_export_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "export", "Write the weights of a run or checkpoint into one safetensors file",
            outcome);
}

void add_models_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "models",
            "The networks that Convoy brings: parameters, arithmetic, memory, layer by layer",
            outcome);
}

void add_plan_command(CLI::App& app, Outcome& outcome) {
  add_later(
      app, "plan",
      "Plan a training: which mini-batch, for which machine, which parallelism (docs/planning.md)",
      outcome);
}

void add_bench_command(CLI::App& app, Outcome& outcome) {
  add_later(app, "bench", "Measure on this machine or cluster what Convoy promises", outcome);
}

}  // namespace convoy::cli
