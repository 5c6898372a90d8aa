// Runs a job with strategy "downpour" or "sandblaster" from its beginning to its end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/server/downpour_roles.h"

namespace convoy::cli {

struct DownpourOrder {
  std::string name;    // of the job
  std::string data;    // folder of the servers' data, see job_data.h
  std::string recipe;  // complete
  std::string resume;  // as in BeginningFacts
  bool overwrite = false;
  bool dry_run = false;  // prints what would be started
  // With dry_run: the recipe's file and further options, as a coordinator that is started by hand
  // reads them.
  std::vector<std::string> recipe_words = {};
  double grace_s = 120;           // for a checkpoint when told to stop
  std::string newest_checkpoint;  // of the run; empty: none
  DownpourSetup setup;            // without the coordinator's address and the checkpoint
  std::string run_folder;         // empty: none
  // What an earlier run has in that folder now, which a new one takes over: with overwrite, or
  // where it begins again (Beginning::again).
  std::function<std::vector<std::string>()> run_files;
  std::function<bool()> lost_run;  // as in BeginningFacts
  // Whether the job has written a checkpoint since it was started here; none: it has not.
  std::function<bool()> has_checkpoint;
  // Which keys differ between two recipes.
  std::function<std::vector<std::string>(const std::string&, const std::string&)> changes;
};

// Returns the exit status: that of run_job. Data of a job that came to its end is removed. Throws
// as choose_beginning(), downpour_roles() and run_job() do. Lines about the job go to standard
// error.
// What an earlier job has left is kept aside until this one has come to its end, been stopped or
// written a checkpoint. It is put back when this one can't be started or ends with a mistake (2)
// before that, unless it was resumed.
int run_downpour_job(DownpourOrder order);

}  // namespace convoy::cli
