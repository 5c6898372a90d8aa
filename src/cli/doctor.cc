// convoy doctor: what this machine and build can do, what is missing and how to get it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/doctor/rows.h"
#include "cli/launch/build_config.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

int examine(const std::string& json_file) {
  Rows rows = machine_rows();
  for (Rows more : {torch_rows(), mpi_rows(), data_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  if (json_file != "-") std::fputs(format_table(rows, isatty(STDOUT_FILENO) != 0).c_str(), stdout);
  if (json_file == "-") {
    std::fputs(format_json(rows).c_str(), stdout);
  } else if (!json_file.empty()) {
    std::ofstream file(json_file);
    file << format_json(rows);
    file.close();
    if (!file) throw UsageError("--json " + json_file + ": cannot be written");
  }
  const bool lacking = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.essential && row.status == RowStatus::missing;
  });
  return lacking ? kExitFailure : 0;
}

}  // namespace

std::string version_line() {
  return std::string("convoy ") + kVersion + " (LibTorch " + torch_version() + ", " +
         mpi_version() + ")";
}

void add_doctor_command(CLI::App& app, Outcome& outcome) {
  auto json_file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what this machine and build can do, what is missing and how to get it");
  command
      ->add_option("--json", *json_file,
                   "One JSON object per check: check, status, detail, hint ('-': standard output)")
      ->type_name("FILE");
  command->callback([json_file, &outcome] { outcome.exit_status = examine(*json_file); });
}

}  // namespace convoy::cli
