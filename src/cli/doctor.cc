// convoy doctor: what this machine and build can do, what is missing and how to get it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/doctor/rows.h"
#include "cli/launch/build_config.h"
#include "cli/rows.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

int examine(const std::string& json_file) {
  Rows json(json_file);
  DoctorRows rows = machine_rows();
  for (DoctorRows more : {torch_rows(), mpi_rows(), data_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  if (!json.on_standard_output())
    std::fputs(format_table(rows, isatty(STDOUT_FILENO) != 0).c_str(), stdout);
  for (const Row& row : rows) {
    json.add({{"check", row.check},
              {"status", status_name(row.status)},
              {"detail", row.detail},
              {"hint", row.hint}});
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
