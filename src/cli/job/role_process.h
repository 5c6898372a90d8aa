// One run of a role: its supervisor here, or mpirun with the supervisor elsewhere, and its output.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cli/job/outcome.h"
#include "cli/job/role.h"
#include "cli/job/role_patience.h"
#include "cli/launch/filter.h"
#include "cli/launch/held_signals.h"
#include "cli/launch/lines.h"
#include "cli/launch/mpirun.h"
#include "cli/launch/output.h"
#include "cli/launch/processes.h"
#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// What all roles of a job are started with.
struct RoleStart {
  std::string agent;  // the supervisor's program
  std::string token;  // marks its reports
  std::string folder;
  std::chrono::milliseconds grace{0};
  std::optional<Mpirun> mpirun;        // for roles on other hosts
  std::vector<std::string> variables;  // NAME=value, for every role
};

class RoleProcess {
 public:
  // Starts it. `variables` are for this run, besides those of the role. Throws Failure. `role`,
  // `out` and `err` outlive this object.
  RoleProcess(const Role& role, std::string label, const RoleStart& start,
              std::vector<std::string> variables, LineOutput& out, LineOutput& err);

  // 0 after its end.
  pid_t pid() const { return status_ ? 0 : pid_; }
  // For poll(): its streams that can be read now, -1 for those that can't.
  std::array<int, 2> sources() const;
  // Reads what is there.
  void advance();
  // Whether something waits to become a report, so that advance() is wanted soon.
  bool holds() const;
  // What waitpid() has said of a process. Whether it is this one, which ends once: its number may
  // come again.
  bool reaped(pid_t pid, int status);
  // Whether its process has ended, or counts as ended.
  bool ended() const { return status_.has_value(); }
  // After that: what it had started is gone as well, or can't be killed. What stands in its streams
  // now is the rest of its output, whoever holds them open and goes on writing.
  void end_output();
  // It has ended, and its output has been read.
  bool over() const;

  // Asks it to stop; after the grace its supervisor kills it.
  void stop();
  // Kills the supervisor. If mpirun is there, here or under the supervisor, that is asked to end,
  // and the kill comes 5 s later: to be called again and again.
  void kill_process();
  // Whether it is there though it was killed 4 s ago.
  bool survives() const;
  // From now on it counts as ended.
  void give_up();
  void pass_on(int signal);

  // After over(): passes the rest of its output on and says how it ended.
  RoleEnd finish();
  std::vector<std::string> last_errors() const {
    return {last_errors_.begin(), last_errors_.end()};
  }

 private:
  struct Stream {
    Descriptor source;
    LineOutput* target = nullptr;
    StreamFilter filter;
    LineCutter cutter;
    std::optional<std::size_t> rest = std::nullopt;  // bytes to read still, see end_output()
  };

  bool remote() const { return mpirun_.has_value(); }
  void read(Stream& stream);
  void close(Stream& stream);
  void tell_mpirun(const AtOnce& below);
  void print(Stream& stream, std::string_view bytes);
  void print_line(const Stream& stream, std::string_view line);

  const std::string prefix_;
  const bool draws_;
  std::optional<MpiFlavor> mpirun_;
  pid_t pid_ = 0;
  HeldSignals held_;
  bool told_ = false;
  bool given_up_ = false;
  KillPatience patience_;
  std::optional<int> status_;
  Clock::time_point last_bytes_ = Clock::now();
  std::vector<Stream> streams_;  // standard output, standard error
  std::optional<Report> supervised_;
  std::optional<Report> ended_;
  std::deque<std::string> last_errors_;
};

}  // namespace convoy::cli
