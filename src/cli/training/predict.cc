// convoy predict: what a trained network makes of inputs, or of the samples of a data set.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/rows.h"
#include "cli/torch_commands.h"
#include "cli/training/ranks.h"
#include "cli/training/trained_options.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/data/comm_peers.h"
#include "convoy/train/memory.h"
#include "train/predict.h"

namespace convoy::cli {
namespace {

using Row = nlohmann::ordered_json;

constexpr const char* kTraining = "training";
constexpr const char* kValidation = "validation";

struct PredictArguments {
  TrainedOptions trained;
  RankOptions ranks;
  std::vector<std::string> files;
  CLI::Option* data = nullptr;  // whether it was given
  std::string split;
  int top = 5;
};

void add_keys(const std::string& object, Row& row) {
  if (!object.empty()) row.update(Row::parse(object));
}

// Adds to a row what there is to say.
void add_answer(const train::Answer& answer, Row& row) {
  if (!answer.error.empty()) {
    row["error"] = answer.error;
  } else {
    add_keys(answer.json, row);
  }
}

// For people. `after` stands behind the name of the input.
void print(const train::Answer& answer, const std::string& after) {
  std::printf("%s%s\n", answer.input.c_str(), after.c_str());
  for (const std::string& line : answer.lines) std::printf("  %s\n", printable_lines(line).c_str());
}

// -- Files, or what else a task takes

int print_all(const PredictArguments& arguments, const std::vector<train::Answer>& answers) {
  Rows rows(arguments.trained.json);
  int status = 0;
  for (const train::Answer& answer : answers) {
    Row row{{"file", answer.input}};
    add_answer(answer, row);
    rows.add(row);
    if (!answer.error.empty()) {
      std::error_code ignored;
      std::fprintf(stderr, "convoy predict: %s%s\n", answer.error.c_str(),
                   std::filesystem::is_directory(answer.input, ignored)
                       ? "; name what is in it, as FOLDER/*.jpg, or a data set with --data"
                       : "");
      status = kExitUsage;
    } else if (!rows.on_standard_output()) {
      print(answer, "");
    }
  }
  return status;
}

// -- A data set

// " (dog)", or nothing where there are no labels.
std::string text_of_labels(const Row& row) {
  std::string text;
  const auto add = [&text](const Row& label) {
    const bool named = label.is_object() && label.contains("name") && label["name"].is_string();
    // A plugin's task may have labels of any form.
    const auto replace = Row::error_handler_t::replace;
    text += (text.empty() ? "" : ", ") +
            (named ? label["name"].get<std::string>() : label.dump(-1, ' ', false, replace));
  };
  if (row.contains("label")) add(row["label"]);
  if (row.contains("labels")) std::for_each(row["labels"].begin(), row["labels"].end(), add);
  return text.empty() ? "" : " (" + text + ")";
}

// Writes rows as they come.
class Table {
 public:
  explicit Table(const std::string& json) : rows_(json) {}

  void add(const std::vector<train::SampleAnswer>& answers) {
    for (const train::SampleAnswer& one : answers) {
      Row row{{"sample", one.sample}, {"key", one.answer.input}};
      add_keys(one.labels, row);
      add_answer(one.answer, row);
      rows_.add(row);
      if (rows_.on_standard_output()) continue;
      if (one.answer.error.empty()) {
        print(one.answer, text_of_labels(row));
      } else if (!one.answer.error.starts_with(train::kLeftOut)) {
        // Of those the log has said which could not be read, and why.
        std::printf("%s: %s\n", one.answer.input.c_str(), one.answer.error.c_str());
      }
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Failure(std::string("writing to standard output failed: ") + std::strerror(errno));
  }

 private:
  Rows rows_;
};

const train::Options& find_split(const train::DataRecipe& data, const std::string& split) {
  if (split == kTraining) return data.train;
  if (split != kValidation) {
    const std::string near = nearest_name(split, {kTraining, kValidation});
    throw UsageError("--data: there is no '" + split + "'; there are " + kTraining + " and " +
                     kValidation +
                     (near.empty() ? "; --data without a word, behind RUN, is validation"
                                   : " (did you mean " + near + "?)"));
  }
  if (!data.has_validation) {
    throw UsageError(
        "the recipe has no [data.validation]; name it, for example with --set "
        "data.validation.path=FOLDER, or use --data training");
  }
  return data.validation;
}

int answer_data(const PredictArguments& arguments, const comm::World& world,
                const train::Registry& registry, train::Trained& trained) {
  const train::DataRecipe& recipe = trained.recipe().data;
  data::CommPeers peers(world.communicator());
  const auto data = registry.open_data(recipe.reader, find_split(recipe, arguments.split), peers);
  train::PredictionOptions options;
  options.on_skip =
      options.on_note = [log = world.log()](const std::string& text) { log.warning(text); };
  std::optional<Table> table;
  if (world.rank() == 0) table.emplace(arguments.trained.json);
  trained.predict(
      data, arguments.top,
      [&table](const std::vector<train::SampleAnswer>& answers) { table->add(answers); }, options);
  return 0;
}

int run_predict(const PredictArguments& arguments) {
  const bool of_data = arguments.data->count() > 0;
  if (of_data && !arguments.files.empty()) {
    throw UsageError("--data answers the samples of a data set, and '" + arguments.files.front() +
                     "' is an input: name one or the other");
  }
  if (!of_data && arguments.files.empty())
    throw UsageError("name inputs behind RUN, or a data set with --data");
  if (!is_a_rank()) Rows::check(arguments.trained.json);  // of ranks, the first one writes it
  train::Registry registry;
  train::TrainedSource source = find_trained(registry, arguments.trained);
  // Few inputs go through the network at once: nobody needs the memory of a mini-batch for them.
  constexpr std::size_t kAtOnce = 16;
  if (!of_data) {
    const std::size_t most = std::min(arguments.files.size(), kAtOnce);
    source.recipe.evaluation.batch = static_cast<std::int64_t>(most);
  }
  if (of_data) {
    const train::DataRecipe& data = source.recipe.data;
    check_is_named(data, arguments.split == kTraining ? "data.train" : "data.validation",
                   find_split(data, arguments.split));
  }
  become_ranks(arguments.ranks, static_cast<int>(source.recipe.threads),
               arguments.ranks.ranks == 1 ? 1 : source.recipe.grid.partitions);
  return in_world(arguments.ranks, "predict", [&](comm::World& world) {
    train::keep_large_blocks({.processes = world.local_size()});
    train::Trained trained(world, registry, source);
    if (of_data) return answer_data(arguments, world, registry, trained);
    const std::vector<train::Answer> answers = trained.predict(arguments.files, arguments.top);
    return world.rank() == 0 ? print_all(arguments, answers) : 0;
  });
}

}  // namespace

void fill_predict_command(CLI::App& command, Outcome& outcome) {
  auto arguments = std::make_shared<PredictArguments>();
  add_trained_options(command, arguments->trained, "One object per input or sample");
  command.add_option("files", arguments->files, "Pictures, or what else the task takes")
      ->type_name("INPUTS");
  arguments->data =
      command
          .add_option("--data", arguments->split,
                      "Instead of inputs: the samples of the recipe's data, in their order and "
                      "prepared as for `convoy eval`; validation unless it says training. --set "
                      "data.validation.path=... names other data")
          ->type_name("validation|training")
          ->expected(0, 1)
          ->default_str(kValidation);
  command
      .add_option("--top", arguments->top,
                  "How many possibilities to name (5); the task one_vs_all names all classes "
                  "above its threshold")
      ->type_name("K")
      ->check(positive_integer());
  add_rank_options(command, arguments->ranks);
  command.callback([arguments, &outcome] { outcome.exit_status = run_predict(*arguments); });
}

}  // namespace convoy::cli
