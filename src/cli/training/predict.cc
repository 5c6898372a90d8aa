// convoy predict: what a trained network makes of inputs.
#include <cstdio>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/trained_options.h"
#include "convoy/base/error.h"
#include "convoy/train/memory.h"

namespace convoy::cli {
namespace {

struct Arguments {
  TrainedOptions trained;
  RankOptions ranks;
  std::vector<std::string> files;
  int top = 5;
};

nlohmann::ordered_json row_of(const train::Answer& answer) {
  nlohmann::ordered_json row{{"file", answer.input}};
  if (!answer.error.empty()) {
    row["error"] = answer.error;
  } else if (!answer.json.empty()) {
    row.update(nlohmann::ordered_json::parse(answer.json));
  }
  return row;
}

int print(const Arguments& arguments, const std::vector<train::Answer>& answers) {
  Rows rows(arguments.trained.json);
  int status = 0;
  for (const train::Answer& answer : answers) {
    rows.add(row_of(answer));
    if (!answer.error.empty()) {
      std::fprintf(stderr, "convoy predict: %s\n", answer.error.c_str());
      status = kExitUsage;
    } else if (!rows.on_standard_output()) {
      std::printf("%s\n", answer.input.c_str());
      for (const std::string& line : answer.lines) std::printf("  %s\n", line.c_str());
    }
  }
  return status;
}

int run(const Arguments& arguments) {
  train::Registry registry;
  const train::TrainedSource source = find_trained(registry, arguments.trained);
  become_ranks(arguments.ranks, static_cast<int>(source.recipe.threads),
               source.recipe.grid.partitions);
  return in_world(arguments.ranks, "predict", [&](comm::World& world) {
    train::keep_large_blocks({.processes = world.local_size()});
    train::Trained trained(world, registry, source);
    const std::vector<train::Answer> answers = trained.predict(arguments.files, arguments.top);
    return world.rank() == 0 ? print(arguments, answers) : 0;
  });
}

}  // namespace

void add_predict_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "predict",
      "What a trained network makes of inputs: the classes of JPEG or PNG pictures, or what "
      "else its task predicts");
  add_trained_options(*command, arguments->trained, "One object per input");
  command->add_option("files", arguments->files, "Pictures, or what else the task takes")
      ->type_name("INPUTS")
      ->required();
  command
      ->add_option("--top", arguments->top,
                   "How many possibilities to name (5); the task one_vs_all names all classes "
                   "above its threshold")
      ->type_name("K")
      ->check(positive_integer());
  add_rank_options(*command, arguments->ranks);
  command->callback([arguments, &outcome] { outcome.exit_status = run(*arguments); });
}

}  // namespace convoy::cli
