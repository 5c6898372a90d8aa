// A run of the convoy program, and the processes that belong to it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"
#include "tests/base/patience.h"

namespace convoy::cli {

struct JobResult {
  int exit_status = -1;  // 128 + signal if it was killed, -1 if it did not end in time
  std::string out;
  std::string err;
  double seconds = 0;
};

struct JobProcess {
  pid_t pid = 0;
  std::string name;  // of the program file: "convoy", "convoy-agent", "mpirun.openmpi", ...
  std::vector<std::string> arguments;
  int rank = -1;  // -1 outside ranks
};

// build/bin/convoy.
std::string convoy_program();

// Starts build/bin/convoy, or another program, with these arguments and a variable in its
// environment that marks every process of the job. Kills what is left in the destructor.
class Job {
 public:
  explicit Job(const std::vector<std::string>& arguments,
               const std::vector<std::string>& variables = {},
               const std::string& program = convoy_program());
  ~Job();
  Job(const Job&) = delete;

  pid_t pid() const { return pid_; }
  enum class Stream { out, err };
  // Collects output until `text` has appeared `times` times in it. False where it doesn't come.
  bool wait_for(const std::string& text, int times, Stream stream = Stream::out);
  // Waits for the program's end, not for that of what it leaves running.
  JobResult finish(std::chrono::seconds limit = test::patience());
  // Living processes with the mark.
  std::vector<JobProcess> processes() const;
  // Those of one program, ordered by rank.
  std::vector<JobProcess> processes(const std::string& name) const;
  // Waits until no process is left; the seconds it took, or -1.
  double wait_until_gone(double limit_s = test::patience_s()) const;

 private:
  // False if nothing has come.
  bool collect(int timeout_ms);

  std::string mark_;
  pid_t pid_ = 0;
  Descriptor out_;
  Descriptor err_;
  JobResult result_;
  Clock::time_point begin_;
};

// build/tests/cli_rank_program.
std::string rank_program();

// build/tests/cli_run_program: `convoy run` without the rest of convoy, which starts 20 times as
// fast.
std::string run_program();

// build/tests/cli_job_program: `convoy job FILE`, likewise.
std::string job_program();

// build/tests/cli_server_program: the commands around the parameter server, likewise.
std::string server_program();

// The last line of a text, without its newline.
std::string last_line(const std::string& text);

int count(const std::string& text, const std::string& part);

}  // namespace convoy::cli
