// The weights of a run as other programs get them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/cli/job.h"

namespace convoy::cli {

// The bytes of what `convoy export` makes of a run's newest checkpoint. It reads, and verifies, all
// of the model, whichever ranks wrote it.
inline std::vector<std::byte> exported_model(const std::string& run) {
  const std::string file = run + ".safetensors";
  const JobResult result = Job({"export", run, file, "--overwrite"}).finish();
  if (result.exit_status != 0) throw UsageError("convoy export " + run + ": " + result.err);
  return read_file(file);
}

}  // namespace convoy::cli
