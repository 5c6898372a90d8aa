#include "convoy/train/checkpoint_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/open_checkpoint.h"
#include "train/recipe/former.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kDigits = 12;

bool names(const std::vector<std::string>& keep, const std::string& checkpoint) {
  return std::any_of(keep.begin(), keep.end(), [&checkpoint](const std::string& name) {
    return last_part(name) == last_part(checkpoint);
  });
}

struct Scored {
  std::string path;
  std::string metric;
  bool usual = true;  // its recipe left the figure to the task
  std::optional<std::uint64_t> measured_on;
  std::optional<double> score;

  // An earlier version's may be the usual one of a plugin's task, and not say which that is.
  bool compares_with(const Scored& other) const {
    if (measured_on != other.measured_on) return false;
    if (metric.empty() || other.metric.empty()) return usual && other.usual;
    return metric == other.metric;
  }
};

Scored scored(const std::string& path, const Manifest& manifest) {
  return {path, figure_of(manifest), chosen_figure(manifest.recipe).empty(), manifest.measured_on,
          manifest.score};
}

// What was read of a manifest, and the file that it was. Each is read once by a process: who keeps
// a thousand checkpoints would read as many at each one that he writes.
struct KnownManifest {
  ino_t file = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;
  std::optional<Scored> scored;

  bool is_of(const struct stat& now) const {
    return file == now.st_ino && bytes == now.st_size && seconds == now.st_mtim.tv_sec &&
           nanoseconds == now.st_mtim.tv_nsec;
  }
};

// Throws as read_manifest() does. Any thread.
Scored read_scored(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, KnownManifest> known;
  const std::string name = fs::absolute(path).lexically_normal().string();
  struct stat now {};
  const bool there = stat((path + "/" + kManifestFile).c_str(), &now) == 0;
  const std::lock_guard lock(mutex);
  KnownManifest& one = known[name];
  if (!there || !one.scored || !one.is_of(now)) {
    one = {};
    Scored read = scored(path, read_manifest(path));
    one = {now.st_ino, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec, std::move(read)};
  }
  Scored result = *one.scored;
  result.path = path;
  return result;
}

// Those up to `step` whose manifest can be read, oldest first.
std::vector<Scored> scores(const CheckpointFolder& folder, std::int64_t step) {
  std::vector<Scored> all;
  for (const std::string& path : folder.list()) {
    if (*step_of(last_part(path)) > step) continue;
    try {
      all.push_back(read_scored(path));
    } catch (const std::exception&) {
    }
  }
  return all;
}

std::string best_of(const std::vector<Scored>& all, const Scored& like) {
  const Scored* best = nullptr;
  for (const Scored& one : all) {
    if (!one.score || std::isnan(*one.score) || !one.compares_with(like)) continue;
    if (best == nullptr || *one.score > *best->score) best = &one;
  }
  return best == nullptr ? "" : best->path;
}

// By the scores that the newest goes by.
std::string best_of(const std::vector<Scored>& all) {
  return all.empty() ? "" : best_of(all, all.back());
}

void retain(const CheckpointFolder& folder, std::int64_t step, const Retention& retention) {
  const std::vector<Scored> all = scores(folder, step);
  const std::string best = retention.best ? best_of(all) : "";
  const auto last = static_cast<std::size_t>(retention.last);
  for (std::size_t i = 0; i + last < all.size(); ++i) {
    const std::string& path = all[i].path;
    if (path != best && !names(retention.keep, path)) remove_checkpoint(path);
  }
}

// What is to be said where that fails. The checkpoint at `path` is there all the same, and the next
// one looks again.
std::string retained(const CheckpointFolder& folder, const std::string& path, std::int64_t step,
                     const Retention& retention) {
  try {
    retain(folder, step, retention);
  } catch (const std::exception& error) {
    return "checkpoint " + path + " is whole, but earlier ones are all kept: " + message_of(error);
  }
  return "";
}

// Throws UsageError when the folder of `path` holds anything but the manifest's files, and Failure
// when it lacks one.
void check_plain_files(const std::string& folder, const std::string& path,
                       const Manifest& manifest) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink() || !entry.is_regular_file() || !manifest.files.contains(name)) {
      throw UsageError("checkpoint " + path + ": '" + name +
                       "' can't be part of it; it holds the files of its manifest");
    }
  }
  for (const auto& [name, expected] : manifest.files) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(folder + "/" + name, error);
    if (!error && bytes == expected.bytes) continue;
    throw Failure(name + " should have " + std::to_string(expected.bytes) + " bytes, but " +
                  (error ? "is not there" : "has " + std::to_string(bytes)));
  }
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(kDigits - std::min(kDigits, digits.size()), '0') +
         digits;
}

std::string last_part(const std::string& path) {
  fs::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

std::optional<std::int64_t> step_of(std::string name) {
  const std::string_view replaced = kReplacedSuffix;
  if (name.ends_with(replaced)) name.resize(name.size() - replaced.size());
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  for (const char c : name.substr(kPrefix.size())) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(step, std::int64_t{10}, &step) ||
        __builtin_add_overflow(step, std::int64_t{c - '0'}, &step)) {
      return std::nullopt;
    }
  }
  if (name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::string figure_of(const Manifest& manifest) {
  return manifest.metric.empty() ? former_figure(manifest.recipe) : manifest.metric;
}

std::string make_superseded_folder(const std::string& checkpoints) {
  for (int n = 1;; ++n) {
    const std::string free = checkpoints + "/superseded-" + std::to_string(n);
    if (fs::exists(fs::symlink_status(free))) continue;
    make_folders(free);
    return free;
  }
}

std::error_code remove_checkpoint(const std::string& path) {
  const fs::path aside = fs::path(path).parent_path() / (".partial-removed-" + last_part(path));
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (!error) fs::remove_all(aside, error);
  return error;
}

CheckpointDraft::CheckpointDraft(std::string parent, std::int64_t step,
                                 std::function<bool()> given_up)
    : parent_(std::move(parent)),
      step_(step),
      path_((fs::path(parent_) / checkpoint_name(step)).string()),
      given_up_(std::move(given_up)) {
  if (step < 0) throw UsageError("a checkpoint's step can't be negative");
  try {
    draft_.emplace(path_, Existing::replace);
  } catch (const Failure& error) {
    throw failure(error.what());
  }
}

Failure CheckpointDraft::failure(std::string reason) {
  // The temporary name says nothing to anybody, and is gone.
  const std::string partial = draft_ ? draft_->partial() : "";
  const std::size_t at = partial.empty() ? std::string::npos : reason.find(partial);
  if (at != std::string::npos) reason.replace(at, partial.size(), path_);
  draft_.reset();
  const std::string said = "checkpoint " + path_ + " was not written: " + reason;
  const std::string usable =
      newest_usable(CheckpointFolder(parent_), step_ + (fs::exists(path_) ? 1 : 0), given_up_);
  if (given_up_ && given_up_()) return Failure(said);
  return Failure(said + "; " +
                 (usable.empty() ? "there is no earlier one" : usable + " stays usable"));
}

std::string CheckpointDraft::commit(const Manifest& manifest, const Retention& retention,
                                    const std::function<void()>& confirm) {
  if (retention.last < 1) throw UsageError("the last checkpoint is always kept: last >= 1");
  try {
    check_plain_files(folder(), path_, manifest);
    write_file_atomically(folder() + "/" + kManifestFile, to_json(manifest));
    // Each file is synced: what is left to do takes no time.
    if (confirm) confirm();
    draft_->commit();
  } catch (const Failure& error) {
    throw failure(error.what());
  } catch (const std::system_error& error) {  // with std::filesystem's own
    throw failure(error.what());
  }
  std::error_code ignored;
  fs::remove_all(path_ + kReplacedSuffix, ignored);
  warning_ = retained(CheckpointFolder(parent_), path_, step_, retention);
  return path_;
}

CheckpointFolder::CheckpointFolder(std::string folder) : folder_(std::move(folder)) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
}

std::vector<std::string> CheckpointFolder::list() const {
  std::map<std::int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator i(folder_, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    const std::optional<std::int64_t> step = step_of(name);
    std::error_code ignored;
    if (!step || !i->is_directory(ignored)) continue;
    // One that was being replaced when the process was killed counts only where nothing took its
    // place.
    if (name.ends_with(kReplacedSuffix)) {
      found.emplace(*step, i->path().string());
    } else {
      found[*step] = i->path().string();
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw UsageError("cannot read the folder " + folder_ + ": " + error.message());
  }
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::string set_aside_with(const CheckpointFolder& folder, std::int64_t step,
                           const std::string& with) {
  std::string aside;
  for (const std::string& path : folder.list()) {
    if (*step_of(last_part(path)) <= step) continue;
    std::error_code error;
    if (aside.empty()) {
      aside = make_superseded_folder(folder.folder());
      if (!with.empty() && fs::exists(with))
        fs::copy_file(with, aside + "/" + last_part(with), error);
      if (error) throw Failure("cannot copy " + with + " to " + aside + ": " + error.message());
    }
    fs::rename(path, fs::path(aside) / last_part(path), error);
    if (error) throw Failure("cannot move " + path + " to " + aside + ": " + error.message());
  }
  return aside;
}

std::string CheckpointFolder::add_score(const std::string& checkpoint, double score,
                                        const Retention& retention) const {
  Manifest manifest = read_manifest(checkpoint);
  manifest.score = score;
  write_file_atomically(checkpoint + "/" + kManifestFile, to_json(manifest));
  return retained(*this, checkpoint, manifest.step, retention);
}

std::string CheckpointFolder::set_aside_after(std::int64_t step) const {
  return set_aside_with(*this, step, "");
}

std::string CheckpointFolder::newest() const {
  const std::vector<std::string> all = list();
  return all.empty() ? "" : all.back();
}

std::string CheckpointFolder::before(const std::string& checkpoint) const {
  const std::optional<std::int64_t> step = step_of(last_part(checkpoint));
  std::string found;
  for (const std::string& path : list()) {
    if (step && *step_of(last_part(path)) < *step) found = path;
  }
  return found;
}

std::string CheckpointFolder::best() const {
  return best_of(scores(*this, std::numeric_limits<std::int64_t>::max()));
}

std::string CheckpointFolder::best_like(const Manifest& manifest) const {
  return best_of(scores(*this, manifest.step), scored("", manifest));
}

}  // namespace convoy::train
