// convoy export: a trained network as one file for other programs.
#include <cstdio>
#include <memory>

#include "cli/rows.h"
#include "cli/torch_commands.h"
#include "cli/writes.h"
#include "convoy/base/units.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/export.h"
#include "train/checkpoint/open_checkpoint.h"

namespace convoy::cli {
namespace {

struct ExportArguments {
  std::string run, file, json;
  bool best = false, overwrite = false;
};

void run_export(const ExportArguments& arguments) {
  const auto which = arguments.best ? train::Which::best : train::Which::newest;
  const std::string checkpoint = train::open_checkpoint_in(arguments.run, which).path;
  const train::Exported exported =
      train::export_model(checkpoint, arguments.file, arguments.overwrite);
  Rows rows(arguments.json);
  rows.add({{"source", checkpoint},
            {"file", arguments.file},
            {"tensors", exported.tensors},
            {"bytes", exported.bytes}});
  if (rows.on_standard_output()) return;
  std::printf("%s: %zu tensors, %s, from %s\n", arguments.file.c_str(), exported.tensors,
              format_bytes(exported.bytes).c_str(), checkpoint.c_str());
}

}  // namespace

void fill_export_command(CLI::App& command, Outcome&) {
  auto arguments = std::make_shared<ExportArguments>();
  command.add_option("run", arguments->run, "Run folder (its newest checkpoint), or checkpoint")
      ->type_name("RUN")
      ->required();
  command.add_option("file", arguments->file, "The file to write")->type_name("FILE")->required();
  command.add_flag("--best", arguments->best, "The run's best checkpoint instead of its newest");
  command.add_flag("--overwrite", arguments->overwrite, "Replace the file if it is there");
  command.add_option("--json", arguments->json, "What was written as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command.callback([arguments] { run_export(*arguments); });
}

}  // namespace convoy::cli
