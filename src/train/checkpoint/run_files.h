// What runs write into their folder, told from what else is there by its names.
#pragma once

#include <string>
#include <vector>

namespace convoy::train {

struct Recipe;

// Gives the folder of a recipe's run: output.folder, or runs/<name> in the current folder,
// absolute.
std::string run_folder_of(const Recipe& recipe);

// These are the files of a run folder. All of them may be missing, and a user's own files stand
// beside them:
//   metrics.jsonl, recipe.toml
//   samples/rank-<n>.log
//   tensorboard/events.out.tfevents.*
//   checkpoints/step-<n>/            with a manifest.json
//   checkpoints/superseded-<n>/      metrics.jsonl and step-<n>/
//   .partial-*                       of processes that were killed, beside any of them
struct RunFiles {
  bool run = false;                      // metrics or checkpoints: something to go on from
  std::string first;                     // what is there under a name of these, whoever wrote it
  std::vector<std::string> files;        // without recipe.toml, metrics.jsonl the last
  std::vector<std::string> checkpoints;  // folders
  std::vector<std::string> leftovers;    // .partial-*, files and folders
  std::vector<std::string> folders;      // in which these are, the innermost first
};

// Changes nothing. Throws UsageError naming what can't be read, and what has a name that a run
// needs but is something else.
RunFiles find_run_files(const std::string& folder);

// Removes them, and folders that are empty then. A run of which something is left when this is
// interrupted is still found as one. Throws Failure naming what can't be removed.
void remove_run_files(const RunFiles& files);

// Whether this is the name of a log of samples, "rank-<n>.log".
bool is_sample_log(const std::string& name);

}  // namespace convoy::train
