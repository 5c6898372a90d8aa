// convoy job: starts a job of several programs.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/job/job_file.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::cli {
namespace {

constexpr const char* kJobDescription =
    "Start the programs that a file names, and watch over them (docs/jobs.md)\n"
    "Restarts those that may fail, and stops services when the others are done.";

struct JobArguments {
  std::string file;
  double grace_s = -1;
  bool dry_run = false;
};

int run_job_file(const JobArguments& arguments) {
  constexpr std::size_t kLongestFile = 1 << 24;
  JobFile job = parse_job_file(read_text_file(arguments.file, kLongestFile), arguments.file);
  if (arguments.grace_s >= 0) job.options.grace_s = arguments.grace_s;
  if (arguments.dry_run) {
    const Terminal terminal{std::filesystem::current_path().string(), /*tells_roles=*/true};
    std::fputs(describe(job, terminal).c_str(), stdout);
    return 0;
  }
  const JobOutcome result = run_job(job.roles, job.options);
  for (const std::string& line : result.lines)
    std::fprintf(stderr, "convoy job: %s\n", line.c_str());
  return result.exit_status;
}

}  // namespace

void add_job_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<JobArguments>();
  CLI::App* command = app.add_subcommand("job", kJobDescription);
  command->add_option("file", arguments->file, "The job file, in TOML")
      ->type_name("FILE")
      ->required();
  command->add_flag("--dry-run", arguments->dry_run,
                    "Check the file, print what would be started, and do nothing else");
  command
      ->add_option("--grace", arguments->grace_s,
                   "How long roles may go on after SIGTERM, instead of what the file says (10)")
      ->type_name("SECONDS")
      ->check(positive_number());
  command->callback([arguments, &outcome] { outcome.exit_status = run_job_file(*arguments); });
}

}  // namespace convoy::cli
