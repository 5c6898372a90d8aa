// cli_job_program FILE: what `convoy job FILE` does, see job.h. With CONVOY_TEST_NO_SIGKILL in the
// environment nothing of the job can kill: as if all its processes hung in the kernel.
// With CONVOY_TEST_SUPERVISED roles run as those of `convoy train` do, and the one called evaluator
// is its evaluator.
// cli_job_program PROGRAM ARGUMENT...: becomes that program, with the same about the variable.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "cli/job/job_file.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace {

// kill(process, SIGKILL) says that it did it, here and in whatever is started from here.
bool do_without_sigkill() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + sizeof(std::uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGKILL, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{sizeof rules / sizeof rules[0], rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

void supervise(convoy::cli::JobFile& job) {
  job.options.speaker = "convoy train";
  job.options.announces = true;
  job.options.stopped_by_usr1 = true;
  for (convoy::cli::Role& role : job.roles) role.plain = role.draws = role.name == "evaluator";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace convoy::cli;
  if (std::getenv("CONVOY_TEST_NO_SIGKILL") != nullptr && !do_without_sigkill()) {
    std::perror("seccomp");
    return 1;
  }
  if (argc > 2) {
    execv(argv[1], argv + 1);
    std::perror(argv[1]);
    return 1;
  }
  try {
    const std::string path = argc > 1 ? argv[1] : "";
    JobFile job = parse_job_file(convoy::read_text_file(path), path);
    if (std::getenv("CONVOY_TEST_SUPERVISED") != nullptr) supervise(job);
    const JobOutcome outcome = run_job(job.roles, job.options);
    for (const std::string& line : outcome.lines)
      std::fprintf(stderr, "convoy job: %s\n", line.c_str());
    return outcome.exit_status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "convoy job: %s\n", error.what());
    return convoy::exit_status(error);
  }
}
