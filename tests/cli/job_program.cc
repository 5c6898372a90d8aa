// cli_job_program FILE: what `convoy job FILE` does, see job.h.
#include <cstdio>
#include <exception>
#include <string>

#include "cli/job/job_file.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

int main(int argc, char** argv) {
  using namespace convoy::cli;
  try {
    const std::string path = argc > 1 ? argv[1] : "";
    const JobFile job = parse_job_file(convoy::read_text_file(path), path);
    const JobOutcome outcome = run_job(job.roles, job.options);
    for (const std::string& line : outcome.lines)
      std::fprintf(stderr, "convoy job: %s\n", line.c_str());
    return outcome.exit_status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "convoy job: %s\n", error.what());
    return convoy::exit_status(error);
  }
}
