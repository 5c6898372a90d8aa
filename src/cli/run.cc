// convoy run: starts ranks.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/launch/launcher.h"
#include "cli/suggest.h"
#include "cli/writes.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

constexpr const char* kRunDescription =
    "Start a program on N ranks and watch over it.\n"
    "If a rank dies, the others are ended and one line says which rank it was and how it ended.";

// CLI11 knows nothing of what follows the options.
class RunFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: convoy run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n";
  }
};

struct RunArguments {
  std::string ranks;
  std::string hosts;
  std::string hostfile;
  std::string threads;
  std::string partitions;
  std::string bind = "cores";
  std::string logs;
  bool label = false;
  std::string timeout_s;
  std::string grace_s;
  std::string mpirun;
  std::vector<std::string> mpirun_arguments;
  bool verbose = false;
};

// Where each rank will write its log; an absolute path, since ranks may start elsewhere.
std::string prepare_logs(const std::string& folder) {
  if (folder.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw UsageError("--logs " + folder + ": the folder cannot be made: " + error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0 || !std::filesystem::is_directory(folder)) {
    throw UsageError("--logs " + folder + ": not a folder that can be written to");
  }
  return std::filesystem::absolute(folder).string();
}

// `rest` begins with the first "--" of the command line. It is the program's if that stands before
// it.
std::vector<std::string> command_of(const CLI::App& app, const std::vector<std::string>& rest,
                                    bool here) {
  std::vector<std::string> command = app.remaining();
  if (!command.empty() && command.front().rfind('-', 0) == 0) {
    throw UsageError(
        unknown_argument(app, command.front()).substr(std::string("convoy run: ").size()));
  }
  command.insert(command.end(), rest.begin() + (command.empty() && !rest.empty() ? 1 : 0),
                 rest.end());
  if (command.empty())
    throw UsageError("which program? Write for example: convoy run -n 2 ./train");
  // On other hosts the supervisors find out.
  if (const std::string problem = here ? problem_of_program(command.front()) : "";
      !problem.empty()) {
    throw UsageError(problem);
  }
  return command;
}

int parse_count(const std::string& text, const std::string& option, const char* what) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc{} || stop != end || count < 1 || count > kMostRanks) {
    throw UsageError(option + " " + text + ": not a number of " + what + " between 1 and " +
                     std::to_string(kMostRanks));
  }
  return count;
}

double parse_grace(const std::string& text) {
  if (text.empty()) return 0;
  char* rest = nullptr;
  const double seconds = std::strtod(text.c_str(), &rest);
  if (!(seconds > 0) || *rest != '\0') {
    throw UsageError("--grace " + text + ": not a number of seconds above 0");
  }
  constexpr double kYears = 1e8;  // whatever is more would not fit a clock
  return std::min(seconds, kYears);
}

// Ranks write to mpirun's pipes; one that shows progress has to know what is behind them.
void tell_terminal() {
  winsize size{};
  const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  setenv("CONVOY_COLUMNS", std::to_string(terminal ? size.ws_col : 0).c_str(), 0);
}

int run_command(const CLI::App& app, const RunArguments& arguments,
                const std::vector<std::string>& rest) {
  LaunchOptions options;
  options.hosts = read_hosts(arguments.hosts, arguments.hostfile);
  options.command = command_of(app, rest, options.hosts.empty());
  if (arguments.ranks.empty() && options.hosts.empty()) {
    throw UsageError("how many ranks? Write for example -n 2");
  }
  options.ranks = arguments.ranks.empty() ? total_slots(options.hosts)
                                          : parse_count(arguments.ranks, "-n", "ranks");
  complete_slots(options.hosts, options.ranks);
  if (!arguments.threads.empty()) parse_count(arguments.threads, "--threads", "threads");
  options.threads = arguments.threads;
  if (!arguments.partitions.empty())
    options.partitions = parse_count(arguments.partitions, "--partitions", "partitions");
  if (arguments.bind != "cores" && arguments.bind != "none") {
    throw UsageError("--bind " + arguments.bind + ": it can be cores or none");
  }
  options.bind = arguments.bind == "cores";
  if (!arguments.timeout_s.empty()) {
    char* rest = nullptr;
    if (!(std::strtod(arguments.timeout_s.c_str(), &rest) > 0) || *rest != '\0') {
      throw UsageError("--timeout " + arguments.timeout_s + ": not a number of seconds above 0");
    }
    setenv("CONVOY_TIMEOUT", arguments.timeout_s.c_str(), 1);
  }
  options.grace_s = parse_grace(arguments.grace_s);
  tell_terminal();
  options.mpirun = find_mpirun(arguments.mpirun);
  options.mpirun_arguments = arguments.mpirun_arguments;
  options.logs = prepare_logs(arguments.logs);
  options.label = arguments.label;
  options.verbose = arguments.verbose;
  options.speaker = "convoy run";
  return launch(options).exit_status;
}

}  // namespace

void add_run_command(CLI::App& app, const std::vector<std::string>& rest, Outcome& outcome) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", kRunDescription);
  command->formatter(std::make_shared<RunFormatter>());
  command->prefix_command();
  command
      ->add_option("-n,--ranks", arguments->ranks,
                   "How many ranks; with hosts: as many as they have slots")
      ->type_name("N");
  command->add_option("--hosts", arguments->hosts, "Where to run: node1:2,node2:2 (ranks per host)")
      ->type_name("LIST");
  command->add_option("--hostfile", arguments->hostfile, "The same from a file, one host per line")
      ->type_name("FILE");
  command
      ->add_option("--threads", arguments->threads,
                   "Threads of each rank (OMP_NUM_THREADS); otherwise its share of the cores")
      ->type_name("T");
  command
      ->add_option("--bind", arguments->bind,
                   "cores: each rank on cores of its own where they divide evenly; none")
      ->type_name("cores|none");
  command
      ->add_option("--logs", arguments->logs,
                   "Also write the output of each rank to DIR/rank-N.log")
      ->type_name("DIR")
      ->check(writes_folder(kLogsFolder));
  command->add_flag("--label", arguments->label, "Put [rank] before each line of output");
  command
      ->add_option("--partitions", arguments->partitions,
                   "Consecutive ranks hold a model together: what is said of a rank that failed "
                   "names its replica and partition")
      ->type_name("N");
  command
      ->add_option("--timeout", arguments->timeout_s,
                   "How long an operation may wait for its peers (CONVOY_TIMEOUT; 300 if unset)")
      ->type_name("SECONDS");
  command
      ->add_option("--grace", arguments->grace_s,
                   "When told to end, ask the ranks by SIGUSR1 and let them go on so long")
      ->type_name("SECONDS");
  command
      ->add_option("--mpirun", arguments->mpirun,
                   "The mpirun to use instead of the one of this build")
      ->type_name("PATH");
  command
      ->add_option("--mpirun-arg", arguments->mpirun_arguments,
                   "Another argument for mpirun; may be repeated")
      ->type_name("ARG")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_flag("--verbose", arguments->verbose,
                    "Show the mpirun command and everything mpirun says");
  command->callback([command, arguments, &rest, &outcome] {
    outcome.exit_status = run_command(*command, *arguments, rest);
  });
}

}  // namespace convoy::cli
