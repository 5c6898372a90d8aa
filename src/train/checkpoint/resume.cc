#include "train/checkpoint/resume.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/server_job.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/resume_rules.h"
#include "train/checkpoint/run_files.h"
#include "train/diverged.h"
#include "train/recipe/former.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// How many folders deep `path` is in `folder`; 0: it is elsewhere.
std::ptrdiff_t depth_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  if (end != outer.end()) return 0;
  return std::count_if(rest, inner.end(), [](const fs::path& part) { return !part.empty(); });
}

// Whether all rows are those of starts.
bool has_starts_alone(const std::string& metrics) {
  constexpr std::uintmax_t kMost = 1 << 20;  // a start is a row of some kB
  std::error_code error;
  const std::uintmax_t size = fs::file_size(metrics, error);
  if (error || size > kMost) return false;
  std::istringstream rows(read_text_file(metrics));
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || row.value("kind", nlohmann::json()) != "run") return false;
  }
  return true;
}

// Whether what is in the folder is a run that ended before it had made an update, by its first
// record, say: there is nothing to go on from, and nothing to lose.
bool is_unbegun(const std::string& folder, const RunFiles& found) {
  if (!found.run || !found.checkpoints.empty()) return false;
  if (!begin_of_file(folder + "/recipe.toml").starts_with(kRunRecipeMark)) return false;
  const bool set_aside = std::any_of(
      found.files.begin(), found.files.end(),
      [&](const std::string& file) { return file.starts_with(checkpoints_in(folder) + "/"); });
  return !set_aside && has_starts_alone(folder + "/metrics.jsonl");
}

// For a run that begins in the folder. `run` and `other` end the sentences.
void check_is_free(const std::string& folder, const std::string& run, const std::string& other) {
  const RunFiles found = find_run_files(folder);
  if (is_unbegun(folder, found)) return;
  if (found.run) throw UsageError(folder + " holds a run " + run);
  if (found.first.empty()) return;
  throw UsageError(found.first +
                   " is there already, and may not be a run's: --set output.folder=... names "
                   "another folder" +
                   other);
}

// Of a file of lines; "" where there is none. Long ones are not looked for.
std::string last_line(const std::string& path) {
  constexpr std::streamoff kMost = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff from = std::max<std::streamoff>(0, size - kMost);
  std::string end(static_cast<std::size_t>(size - from), '\0');
  file.seekg(from);
  file.read(end.data(), size - from);
  while (!end.empty() && end.back() == '\n') end.pop_back();
  return end.substr(end.rfind('\n') + 1);
}

// Of a file of lines; "" where there is none.
std::string first_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string recipe_text(const Recipe& recipe) {
  return kRunRecipeMark.data() + print_recipe(recipe, true);
}

void write_recipe(const Recipe& recipe) {
  write_file_atomically(recipe.output.folder + "/recipe.toml", recipe_text(recipe));
}

}  // namespace

std::string checkpoints_in(const std::string& folder) { return folder + "/checkpoints"; }

void check_run_folder(const std::string& folder, bool overwrite) {
  if (overwrite) {
    const std::string recipe = folder + "/recipe.toml";
    // The one that is to be trained, say.
    if (!find_run_files(folder).run && fs::exists(recipe) &&
        !begin_of_file(recipe).starts_with(kRunRecipeMark)) {
      throw UsageError(recipe +
                       " is there, and is no run's, so it is left as it is; move it away, "
                       "or name another folder with --set output.folder=...");
    }
    return;
  }
  check_is_free(
      folder,
      "already: --resume goes on from its newest checkpoint, --resume=auto also begins again "
      "where there is none, --overwrite removes it, --set output.folder=... names another "
      "folder",
      "; --overwrite removes what has the names of a run's files, and leaves the rest");
}

Start choose_start(const std::string& folder) {
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  if (!checkpoints.newest().empty()) return Start::go_on;
  const RunFiles found = find_run_files(folder);
  if (!found.run) {
    check_run_folder(folder, false);
    return Start::begin;
  }
  if (!found.checkpoints.empty())
    throw UsageError("--resume=auto: all checkpoints of the run in " + folder +
                     " were set aside (" + checkpoints.folder() +
                     "/superseded-<n>): name one of them, or another folder with --set "
                     "output.folder=...");
  return Start::begin_again;
}

std::string origin_of_lost_run(const std::string& folder) {
  if (!find_run_files(folder).checkpoints.empty()) return "";
  const auto begin = nlohmann::json::parse(first_line(folder + "/metrics.jsonl"), nullptr, false);
  if (!begin.is_object()) return "";
  const auto text = [&begin](const char* key) -> std::string {
    const auto found = begin.find(key);
    return found != begin.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (text("kind") != "run" || text("resumed_from").empty()) return "";
  const std::string path =
      (fs::path(text("working_folder")) / text("resumed_from")).lexically_normal().string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw UsageError("the run in " + folder + " went on from " + path +
                     ", and was lost before its first checkpoint; that one is gone, so it can't "
                     "begin again as it began: name another folder with --set output.folder=...");
  }
  return path;
}

namespace {

// Whether the run in the folder went on from this checkpoint of another, and was lost before its
// first own.
bool began_from(const std::string& folder, const std::string& checkpoint) {
  std::error_code ignored;
  const std::string origin = origin_of_lost_run(folder);
  return !origin.empty() && fs::equivalent(origin, checkpoint, ignored);
}

}  // namespace

Origin open_origin(const std::string& which, const std::string& folder) {
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  Origin origin;
  std::error_code ignored;
  if (which == "latest") {
    origin.path = checkpoints.newest();
  } else if (which == "best") {
    origin.path = checkpoints.best();
  } else if (fs::is_directory(checkpoints_in(which), ignored)) {
    origin.path = checkpoint_in(which, Which::newest);  // of a run folder
  } else {
    origin.path = which;
  }
  if (origin.path.empty()) {
    const bool best = which == "best";
    throw UsageError("--resume: there is no checkpoint " +
                     std::string(best ? "with a score " : "") + "in " + checkpoints.folder() +
                     (best ? "" : "; --resume=auto begins where there is none"));
  }
  constexpr const char* kElsewhere =
      ": to go on from it, name a folder of its own with --set output.folder=...";
  const std::ptrdiff_t depth = depth_in(origin.path, checkpoints.folder());
  if (depth > 1) {
    throw UsageError(origin.path + " was set aside when the run in " + folder +
                     " went back to an earlier checkpoint, and that run has gone another way" +
                     kElsewhere);
  }
  if (depth == 0) {
    if (!fs::exists(origin.path, ignored)) throw UsageError("--resume: there is no " + origin.path);
    if (!began_from(folder, origin.path))
      check_is_free(folder, "that " + origin.path + " is no checkpoint of" + kElsewhere, "");
  }
  origin.manifest = open_checkpoint(origin.path);
  return origin;
}

// Where its files were then doesn't matter.
Recipe recipe_of(const Origin& origin, const Vocabulary& vocabulary) {
  return parse_recipe({of_today(origin.manifest.recipe), "the checkpoint's recipe", "/"}, {},
                      vocabulary, Files::may_be_missing);
}

Recipe check_origin(const Origin& origin, const Recipe& recipe, const Vocabulary& vocabulary,
                    const data::Dataset& training_data, const Log* log) {
  const Manifest& saved = origin.manifest;
  const auto refuse = [&origin](const std::string& why) {
    throw UsageError(origin.path + " can't be resumed with this recipe: " + why);
  };
  if (saved.samples != training_data.size() ||
      saved.data_fingerprint != training_data.fingerprint()) {
    refuse("data.train is another data set (" + std::to_string(saved.samples) + " samples then, " +
           std::to_string(training_data.size()) + " now, or other files)");
  }
  const Recipe before = recipe_of(origin, vocabulary);
  const std::string now = print_recipe(recipe, false), then = print_recipe(before, false);
  for (const RecipeChange& change : recipe_changes(now, then)) {
    if (recipe.strategy == kSandblaster && before.strategy == kSandblaster &&
        is_of_the_objective(change.key)) {
      refuse(change.key + " is " + change.mine + ", in the checkpoint it is " + change.theirs +
             "; its loss, gradient and history are of that function. To minimize another one, "
             "begin with its weights (model.weights; convoy export makes the file)");
    }
    const auto rule = resume_rule_of(recipe, change.key);
    if (!rule || rule->rule != ResumeRule::fixed) continue;
    if (change.key == "strategy" && save_alike(recipe.strategy, before.strategy)) continue;
    const bool anew = takes_weights_alone(recipe.strategy, before.strategy);
    if (anew && (change.key == "strategy" || change.key.starts_with("optimizer."))) continue;
    // A key of what is chosen anew has no other value: it was none, or another's.
    const bool other_schedule =
        change.key.starts_with("schedule.") && recipe.schedule.name != before.schedule.name;
    if (other_schedule || change.mine.empty() || change.theirs.empty()) continue;
    refuse(change.key + " is " + change.mine + ", in the checkpoint it is " + change.theirs + "; " +
           (rule->why.empty() ? "it has to stay as it was" : rule->why));
  }
  const std::string changed = recipe_difference(now, then, "in the checkpoint");
  if (!changed.empty() && log != nullptr) log->info("resuming with other values: " + changed);
  if (takes_weights_alone(recipe.strategy, before.strategy) && log != nullptr)
    log->info("the optimizer begins anew: the checkpoint has the state of " + before.strategy);
  return before;
}

void check_leads_elsewhere(const Recipe& recipe, std::int64_t step) {
  const std::string& folder = recipe.output.folder;
  const auto end = nlohmann::json::parse(last_line(folder + "/metrics.jsonl"), nullptr, false);
  const auto text = [&end](const char* key) -> std::string {
    const auto found = end.find(key);
    return found != end.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!end.is_object() || text("kind") != "end" || text("how") != "diverged") return;
  const auto reached = end.find("step");
  if (reached == end.end() || !reached->is_number_integer()) return;
  const auto at = reached->get<std::int64_t>();
  if (at <= step || !fs::exists(folder + "/recipe.toml")) return;
  if (read_text_file(folder + "/recipe.toml") != recipe_text(recipe)) return;
  const std::string where = text("where");
  throw UsageError(
      "the training in " + folder + " diverged after step " + std::to_string(at) +
      (where.empty() ? "" : " ('" + where + "')") + ", and this recipe is the same: " +
      (step < 0 ? "begun again" : "from step " + std::to_string(step)) + " it would end so again" +
      (text("cause") == "data"
           ? std::string(", unless the data has been mended. ") + kLookAtTheData + "; then "
           : ". Change it (optimizer.lr, schedule.warmup, training.clip_norm), or ") +
      (step < 0 ? "begin with --overwrite"
                : "name the checkpoint to go on from with --resume CHECKPOINT"));
}

void prepare_new_run(const Recipe& recipe, bool overwrite) {
  check_run_folder(recipe.output.folder, overwrite);  // it may have changed
  const RunFiles found = find_run_files(recipe.output.folder);
  if (overwrite || is_unbegun(recipe.output.folder, found)) remove_run_files(found);
  write_recipe(recipe);
}

std::string prepare_run_again(const Recipe& recipe) {
  const std::string& folder = recipe.output.folder;
  RunFiles found = find_run_files(folder);
  const std::string metrics = folder + "/metrics.jsonl";
  std::string aside;
  if (fs::exists(metrics)) {
    aside = make_superseded_folder(checkpoints_in(folder));
    std::error_code error;
    fs::rename(metrics, aside + "/metrics.jsonl", error);
    if (error) throw Failure("cannot move " + metrics + " to " + aside + ": " + error.message());
  }
  // Those of starts before it were set aside so, too.
  std::erase_if(found.files, [](const std::string& path) {
    return fs::path(path).filename() == "metrics.jsonl";
  });
  remove_run_files(found);
  write_recipe(recipe);
  return aside;
}

std::string prepare_resumed_run(const Recipe& recipe, const Origin& origin) {
  const std::string& folder = recipe.output.folder;
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  const std::string aside =
      set_aside_with(checkpoints, origin.manifest.step, folder + "/metrics.jsonl");
  write_recipe(recipe);
  return aside;
}

}  // namespace convoy::train
