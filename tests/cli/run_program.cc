// cli_run_program run ...: what `convoy run ...` does, see job.h.
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace convoy::cli;
  CLI::App app("", "convoy");
  return run_command_line(app, argc, argv, add_run_command);
}
