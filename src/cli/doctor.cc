// convoy doctor: what this machine and build can do, what is missing and how to get it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/doctor/rows.h"
#include "cli/rows.h"
#include "cli/torch_commands.h"
#include "cli/version.h"
#include "cli/writes.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

DoctorRows loaded_torch_rows() {
  try {
    return torch_commands().doctor_rows();
  } catch (const Failure& failure) {
    return {{"LibTorch", RowStatus::missing, failure.what(),
             "leave Convoy's libraries where they were installed, and LibTorch " + torch_version() +
                 " where it was when Convoy was built",
             true}};
  }
}

int examine(const std::string& json_file) {
  Rows json(json_file);
  DoctorRows rows = machine_rows();
  // LibTorch is loaded last: the others have to do without it.
  const DoctorRows mpi = mpi_rows(), data = data_rows(), torch = loaded_torch_rows();
  for (const DoctorRows& more : {torch, DoctorRows{allocator_row()}, mpi, data})
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

void add_doctor_command(CLI::App& app, Outcome& outcome) {
  auto json_file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what this machine and build can do, what is missing and how to get it");
  command
      ->add_option("--json", *json_file,
                   "One JSON object per check: check, status, detail, hint ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([json_file, &outcome] { outcome.exit_status = examine(*json_file); });
}

}  // namespace convoy::cli
