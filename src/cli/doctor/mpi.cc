#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "cli/doctor/rows.h"
#include "cli/launch/build_config.h"
#include "cli/launch/launcher.h"
#include "cli/version.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr int kProbeTimeoutMs = 20000;

// The level MPI grants when MPI_THREAD_MULTIPLE is asked for, or -1. In a process of its own: MPI
// ends the process when it can't start, and can be started only once.
int granted_thread_level() {
  std::array<int, 2> answer{};
  if (pipe(answer.data()) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    int level = -1;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) _exit(1);
    if (write(answer[1], &level, sizeof level) != sizeof level) _exit(1);
    MPI_Finalize();
    _exit(0);
  }
  close(answer[1]);
  int level = -1;
  pollfd ready{answer[0], POLLIN, 0};
  if (child < 0 || poll(&ready, 1, kProbeTimeoutMs) <= 0 ||
      read(answer[0], &level, sizeof level) != sizeof level) {
    level = -1;
  }
  close(answer[0]);
  if (child > 0) {
    if (level < 0) kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return level;
}

Row thread_level() {
  const char* name = "MPI threads";
  switch (const int level = granted_thread_level()) {
    case MPI_THREAD_MULTIPLE:
      return {name, RowStatus::ok, "MPI_THREAD_MULTIPLE: communication may run beside computation",
              ""};
    case -1:
      return {name, RowStatus::missing, "MPI could not be started in a single process",
              "see what a one-rank MPI program prints", true};
    default:
      return {name, RowStatus::note,
              level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
              : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                             : "MPI_THREAD_SINGLE",
              "without MPI_THREAD_MULTIPLE there is no progress thread; use an MPI built with it"};
  }
}

bool same_library(const Mpirun& mpirun) {
  return (mpirun.flavor == MpiFlavor::openmpi) == (std::string(kBuildMpiFlavor) == "openmpi");
}

Row start_two_ranks(const Mpirun& mpirun) {
  LaunchOptions options;
  options.mpirun = mpirun;
  options.ranks = 2;
  options.command = {"true"};
  const auto begin = Clock::now();
  const Verdict verdict = launch(options);
  const double elapsed = seconds_since(begin);
  if (verdict.exit_status == 0)
    return {"convoy run", RowStatus::ok, "2 ranks started and ended in " + format_seconds(elapsed),
            ""};
  return {"convoy run", RowStatus::missing, verdict.line,
          "'convoy run --verbose -n 2 true' shows what mpirun says", true};
}

}  // namespace

DoctorRows mpi_rows() {
  DoctorRows rows{{"MPI library", RowStatus::ok, mpi_version(), ""}, thread_level()};
  try {
    const Mpirun mpirun = find_mpirun("");
    const std::string detail = mpirun.path + " (" + mpirun.version + ")";
    if (!same_library(mpirun)) {
      rows.push_back({"mpirun", RowStatus::missing,
                      detail + ", but this build uses " + kBuildMpiFlavor,
                      "ranks would not find each other: name the right one with --mpirun", true});
    } else {
      rows.push_back({"mpirun", RowStatus::ok, detail, ""});
    }
    rows.push_back(start_two_ranks(mpirun));
  } catch (const std::exception& error) {
    rows.push_back({"mpirun", RowStatus::missing, error.what(), "", true});
  }
  return rows;
}

}  // namespace convoy::cli
