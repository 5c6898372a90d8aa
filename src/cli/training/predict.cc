// convoy predict: what a trained network sees in pictures.
#include <cstdio>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/rows.h"
#include "cli/training/trained_options.h"
#include "convoy/base/error.h"
#include "convoy/train/memory.h"

namespace convoy::cli {
namespace {

struct Arguments {
  TrainedOptions trained;
  std::vector<std::string> files;
  int top = 5;
};

nlohmann::ordered_json row_of(const train::Prediction& prediction) {
  nlohmann::ordered_json row{{"file", prediction.file}};
  if (!prediction.error.empty()) {
    row["error"] = prediction.error;
    return row;
  }
  row["classes"] = nlohmann::ordered_json::array();
  for (const auto& score : prediction.best) {
    row["classes"].push_back(
        {{"index", score.index}, {"name", score.name}, {"probability", score.probability}});
  }
  return row;
}

int run(const Arguments& arguments) {
  train::keep_large_blocks();
  train::Registry registry;
  const train::Trained trained = load_trained(registry, arguments.trained);
  Rows rows(arguments.trained.json);
  int status = 0;
  for (const train::Prediction& p : train::predict(trained, arguments.files, arguments.top)) {
    rows.add(row_of(p));
    if (!p.error.empty()) {
      std::fprintf(stderr, "convoy predict: %s\n", p.error.c_str());
      status = kExitUsage;
    } else if (!rows.on_standard_output()) {
      std::printf("%s\n", p.file.c_str());
      for (const auto& score : p.best) {
        std::printf("  %6.2f%%  %s\n", 100 * score.probability, score.name.c_str());
      }
    }
  }
  return status;
}

}  // namespace

void add_predict_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "predict", "Name the classes of JPEG or PNG pictures with a trained network");
  add_trained_options(*command, arguments->trained, "One object per picture");
  command->add_option("files", arguments->files, "Pictures")->type_name("FILES")->required();
  command->add_option("--top", arguments->top, "How many classes to name (5)")
      ->type_name("K")
      ->check(positive_integer());
  command->callback([arguments, &outcome] { outcome.exit_status = run(*arguments); });
}

}  // namespace convoy::cli
