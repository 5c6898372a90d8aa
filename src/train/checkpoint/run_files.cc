#include "train/checkpoint/run_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/train/recipe.h"
#include "train/checkpoint/checkpoint_names.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";

UsageError in_the_way(const std::string& path, const std::string& what) {
  return UsageError(path + " " + what +
                    ": move it away, or name another folder with --set output.folder=...");
}

// Follows links. Nothing where there is nothing.
fs::file_type type_of(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) {
    throw UsageError("cannot read " + path + ": " + error.message());
  }
  return type;
}

bool is_there(const std::string& path) { return type_of(path) != fs::file_type::not_found; }

// In order; none where there is no folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const fs::file_type type = type_of(folder);
  if (type == fs::file_type::not_found) return names;
  if (type != fs::file_type::directory) throw in_the_way(folder, "is not a folder");
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    names.push_back(i->path().filename().string());
  }
  if (error) throw UsageError("cannot read the folder " + folder + ": " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_event_file(const std::string& name) { return name.starts_with("events.out.tfevents."); }

bool is_superseded(const std::string& name) {
  constexpr std::string_view kPrefix = "superseded-";
  return name.starts_with(kPrefix) && is_number(std::string_view(name).substr(kPrefix.size()));
}

class Search {
 public:
  explicit Search(const std::string& folder) : folder_(folder) {}

  RunFiles run() {
    find_logs("samples", is_sample_log);
    find_logs("tensorboard", is_event_file);
    find_checkpoints(folder_ + "/checkpoints");
    for (const char* name : {"recipe.toml", "metrics.jsonl"}) find_file(name);
    for (const std::string& name : names_in(folder_)) {
      if (name.starts_with(".partial-recipe.toml-") ||
          name.starts_with(".partial-metrics.jsonl-")) {
        found_.leftovers.push_back(folder_ + "/" + name);
      }
    }
    return std::move(found_);
  }

 private:
  void note(const std::string& path) {
    if (found_.first.empty()) found_.first = path;
  }

  void find_logs(const std::string& part, bool (*is_log)(const std::string&)) {
    const std::string folder = folder_ + "/" + part;
    for (const std::string& name : names_in(folder)) {
      note(folder);
      const std::string path = folder + "/" + name;
      if (name.starts_with(kPartial)) found_.leftovers.push_back(path);
      if (is_log(name)) found_.files.push_back(path);
    }
    if (is_there(folder)) found_.folders.push_back(folder);
  }

  // In "checkpoints", and in what was set aside there.
  void find_checkpoints(const std::string& folder) {
    for (const std::string& name : names_in(folder)) {
      note(folder);
      const std::string path = folder + "/" + name;
      if (name.starts_with(kPartial)) found_.leftovers.push_back(path);
      if (step_of(name)) add_checkpoint(path);
      if (is_superseded(name) && folder == folder_ + "/checkpoints") {
        found_.run = true;
        find_checkpoints(path);
        if (is_there(path + "/metrics.jsonl")) found_.files.push_back(path + "/metrics.jsonl");
      }
    }
    if (is_there(folder)) found_.folders.push_back(folder);
  }

  // They appear whole: without a manifest it is none.
  void add_checkpoint(const std::string& path) {
    if (!is_there(path + "/manifest.json")) {
      throw in_the_way(path, "has the name of a checkpoint, but no manifest.json");
    }
    found_.run = true;
    found_.checkpoints.push_back(path);
  }

  void find_file(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    const fs::file_type type = type_of(path);
    if (type == fs::file_type::not_found) return;
    if (type != fs::file_type::regular) throw in_the_way(path, "is not a plain file");
    note(path);
    if (name == "recipe.toml") return;
    std::error_code error;
    if (fs::file_size(path, error) > 0 && !kMetricsFile.is(begin_of_file(path)))
      throw in_the_way(path, "is not " + std::string(kMetricsFile.what));
    found_.run = true;
    found_.files.push_back(path);
  }

  std::string folder_;
  RunFiles found_;
};

[[noreturn]] void fail_removing(const std::string& path, const std::error_code& error) {
  throw Failure("cannot remove " + path + ": " + error.message());
}

}  // namespace

bool is_sample_log(const std::string& name) {
  constexpr std::string_view kPrefix = "rank-", kSuffix = ".log";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  if (name.size() < kPrefix.size() + kSuffix.size()) return false;
  return is_number(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

std::string run_folder_of(const Recipe& recipe) {
  const std::string& folder = recipe.output.folder;
  return fs::absolute(folder.empty() ? "runs/" + recipe.name : folder).lexically_normal().string();
}

RunFiles find_run_files(const std::string& folder) { return Search(folder).run(); }

void remove_run_files(const RunFiles& files) {
  std::error_code error;
  for (const std::string& path : files.checkpoints) {
    error = remove_checkpoint(path);
    if (error) fail_removing(path, error);
  }
  for (const std::string& path : files.leftovers) {
    fs::remove_all(path, error);
    if (error) fail_removing(path, error);
  }
  for (const std::string& path : files.files) {
    fs::remove(path, error);
    if (error) fail_removing(path, error);
  }
  // What else is in them stays, and they with it; links to folders, too.
  for (const std::string& path : files.folders) ::rmdir(path.c_str());
}

}  // namespace convoy::train
