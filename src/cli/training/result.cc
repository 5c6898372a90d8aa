#include "cli/training/result.h"

#include <cstdio>
#include <string>

#include "convoy/base/units.h"

namespace convoy::cli {

void print_result(const train::RunResult& result) {
  if (result.evaluation) {
    std::string figures;
    for (const auto& figure : result.evaluation->figures)
      figures += (figures.empty() ? "" : ", ") + train::text_of(figure);
    std::printf("validation: %s of %llu samples\n", figures.c_str(),
                static_cast<unsigned long long>(result.evaluation->samples));
  }
  std::printf("%s after %lld steps, %s of training\n", result.stopped ? "stopped" : "done",
              static_cast<long long>(result.steps), format_seconds(result.seconds).c_str());
  std::printf("metrics     %s/metrics.jsonl\n", result.folder.c_str());
  std::printf("report      convoy report %s\n", result.folder.c_str());
  if (!result.checkpoint.empty()) std::printf("checkpoint  %s\n", result.checkpoint.c_str());
  if (result.stopped) std::printf("to go on, add --resume to the same command\n");
  std::fflush(stdout);
}

}  // namespace convoy::cli
