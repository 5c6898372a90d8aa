#include "cli/training/result.h"

#include <cstdio>
#include <string>

#include "convoy/base/units.h"

namespace convoy::cli {

void print_result(const train::RunResult& result) {
  if (result.evaluation) std::printf("%s\n", train::evaluation_line(result).c_str());
  std::printf("%s after %lld step%s, %s of training\n", result.stopped ? "stopped" : "done",
              static_cast<long long>(result.steps), result.steps == 1 ? "" : "s",
              format_seconds(result.seconds).c_str());
  std::printf("metrics     %s/metrics.jsonl\n", result.folder.c_str());
  std::printf("report      convoy report %s\n", result.folder.c_str());
  if (!result.checkpoint.empty()) std::printf("checkpoint  %s\n", result.checkpoint.c_str());
  if (result.stopped) std::printf("to go on, add --resume to the same command\n");
  std::fflush(stdout);
}

}  // namespace convoy::cli
