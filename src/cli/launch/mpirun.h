// The command that starts ranks, for the MPI that is installed.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/hosts.h"

namespace convoy::cli {

enum class MpiFlavor { openmpi, mpich };

struct Mpirun {
  std::string path;
  MpiFlavor flavor = MpiFlavor::openmpi;
  int major = 0;        // version, 0 where it is not known
  std::string version;  // "Open MPI 4.1.4"

  std::string name() const { return path.substr(path.rfind('/') + 1); }
};

// Where a command is: a path with a '/' as it stands if it can be executed, otherwise looked for in
// PATH. Empty if there is none.
std::string find_program(const std::string& command);

// Why a command can't be run here: "there is no program 'trian' in PATH"; empty if it can.
std::string problem_of_program(const std::string& command);

// The mpirun to use: the given one, or the one of this build, or the first in PATH. Runs it once
// with --version. Throws UsageError that says what to install.
Mpirun find_mpirun(const std::string& given);

// What a job looks like to mpirun.
struct MpirunJob {
  int ranks = 1;
  std::vector<HostSlots> hosts;  // empty: this machine, or what the batch system granted
  std::vector<std::string> extra_arguments;  // of the user, before the command
  std::vector<std::string> command;          // what each rank runs
  // Names of variables that other hosts must see besides those that always travel.
  std::vector<std::string> variables = {};
};

std::vector<std::string> mpirun_arguments(const Mpirun& mpirun, const MpirunJob& job);

// Variables mpirun needs, as NAME=value; those the user has set already are left out. `folder`:
// where Open MPI puts what it needs while it runs, on hosts that all see the folder; empty: where
// it likes.
std::vector<std::string> mpirun_environment(const Mpirun& mpirun, bool root,
                                            const std::string& folder = "");

}  // namespace convoy::cli
