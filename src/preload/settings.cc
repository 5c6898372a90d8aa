#include "preload/settings.h"

#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"

namespace convoy::preload {

Settings Settings::from_environment() {
  Settings settings;
  try {
    settings.selection =
        comm::AllreduceSelection(environment("CONVOY_ALLREDUCE") + ";" + kUsualRules,
                                 "the environment variable CONVOY_ALLREDUCE");
    if (const std::string after = environment("CONVOY_MPI_AFTER"); !after.empty())
      settings.after = parse_bytes(after);
  } catch (const UsageError& e) {
    settings.mistake = e.what();
  }
  settings.check_calls = environment("CONVOY_CHECK_CALLS", "0") != "0";
  settings.verbose = environment("CONVOY_MPI_VERBOSE", "0") != "0";
  return settings;
}

bool Settings::might_take(std::size_t bytes, int ranks) const {
  for (const comm::AllreduceRule& rule : selection.rules()) {
    if (!rule.bytes.contains(bytes) || !rule.ranks.contains(ranks)) continue;
    if (rule.choice.algorithm != comm::AllreduceAlgorithm::mpi) return true;
    if (rule.nodes.everything()) return false;
  }
  return false;  // not reached: the last rule fits everything
}

std::uint64_t Settings::fingerprint() const {
  // Every rank has this very library file, and so the same hash.
  return std::hash<std::string>()(selection.text() + (check_calls ? " checked " : " ") +
                                  std::to_string(after));
}

}  // namespace convoy::preload
