#include "cli/training/trained_options.h"
#include "cli/writes.h"

#include "convoy/base/error.h"

namespace convoy::cli {

void add_trained_options(CLI::App& command, TrainedOptions& options, const std::string& json_help) {
  command
      .add_option("run", options.run,
                  "Run folder (its newest checkpoint), checkpoint, or recipe (.toml)")
      ->type_name("RUN")
      ->required();
  command.add_flag("--best", options.best, "The run's best checkpoint instead of its newest");
  add_set_option(command, options.overrides);
  command.add_option("--json", options.json, json_help + " ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
}

train::TrainedSource find_trained(train::Registry& registry, const TrainedOptions& options) {
  const auto which = options.best ? train::Which::best : train::Which::newest;
  return train::find_trained(registry, options.run, which, options.overrides);
}

void check_is_named(const train::DataRecipe& recipe, const std::string& table,
                    const train::Options& data) {
  for (const train::Option& option : data.specification()) {
    if (!option.required || data.value(option.key) != option.initial) continue;
    const std::string key = table + "." + option.key;
    throw UsageError(key + " is missing: " + option.doc + "; the reader " + recipe.reader +
                     " needs it, for example with --set " + key + "=...");
  }
}

}  // namespace convoy::cli
