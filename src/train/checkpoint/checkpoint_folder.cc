#include "convoy/train/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "convoy/base/checksum.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/checkpoint/checkpoint_names.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr std::size_t kManifestLimit = std::size_t{1} << 30;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kReplaced = ".old";  // see Existing::replace
constexpr std::size_t kDigits = 12;

std::string name_of(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(kDigits - std::min(kDigits, digits.size()), '0') +
         digits;
}

std::string last_part(const std::string& path) {
  fs::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

// Size and checksum, read in pieces: a file may be larger than memory, and a mapping would end the
// process if it shrank. Throws UsageError when it can't be read.
FileEntry measure(const std::string& path) {
  const auto bad = [&path](const std::string& why) { return UsageError(path + " " + why); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open() && errno == ENOENT) throw bad("is missing");
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) {
    throw bad(std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw bad("is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  std::vector<std::byte> buffer(std::clamp<std::size_t>(size, 1, std::size_t{1} << 20));
  Xxh3 hash;
  FileEntry entry;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw bad(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) break;
    hash.update(std::span(buffer).first(static_cast<std::size_t>(got)));
    entry.bytes += static_cast<std::uint64_t>(got);
  }
  entry.xxh3 = hash.digest();
  return entry;
}

Manifest read_manifest(const std::string& checkpoint) {
  const std::string path = (fs::path(checkpoint) / kManifest).string();
  return manifest_from_json(read_text_file(path, kManifestLimit), path);
}

Manifest verify(const std::string& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  for (const auto& [name, expected] : manifest.files) {
    const std::string path = (fs::path(checkpoint) / name).string();
    const FileEntry found = measure(path);
    if (found.bytes != expected.bytes) {
      throw UsageError(path + " is damaged: it has " + std::to_string(found.bytes) +
                       " bytes, the manifest says " + std::to_string(expected.bytes));
    }
    if (found.xxh3 != expected.xxh3) {
      throw UsageError(path + " is damaged: its checksum is " + to_hex(found.xxh3) +
                       ", the manifest says " + to_hex(expected.xxh3));
    }
  }
  return manifest;
}

// The newest of those before `step` that passes verification, or empty.
std::string newest_usable(const CheckpointFolder& folder, std::int64_t step) {
  std::vector<std::string> all = folder.list();
  for (auto checkpoint = all.rbegin(); checkpoint != all.rend(); ++checkpoint) {
    if (*step_of(last_part(*checkpoint)) >= step) continue;
    try {
      verify(*checkpoint);
      return *checkpoint;
    } catch (const std::exception&) {
    }
  }
  return "";
}

bool names(const std::vector<std::string>& keep, const std::string& checkpoint) {
  return std::any_of(keep.begin(), keep.end(), [&checkpoint](const std::string& name) {
    return last_part(name) == last_part(checkpoint);
  });
}

struct Scored {
  std::string path;
  std::optional<double> score;
};

// Those up to `step` whose manifest can be read, oldest first.
std::vector<Scored> scores(const CheckpointFolder& folder, std::int64_t step) {
  std::vector<Scored> all;
  for (const std::string& path : folder.list()) {
    if (*step_of(last_part(path)) > step) continue;
    try {
      all.push_back({path, read_manifest(path).score});
    } catch (const std::exception&) {
    }
  }
  return all;
}

std::string best_of(const std::vector<Scored>& all) {
  const Scored* best = nullptr;
  for (const Scored& one : all) {
    if (!one.score || std::isnan(*one.score)) continue;
    if (best == nullptr || *one.score > *best->score) best = &one;
  }
  return best == nullptr ? "" : best->path;
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

void add_files(const std::string& folder, const std::string& path, Manifest& manifest) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == kManifest || !entry.is_regular_file() || entry.is_symlink()) {
      throw UsageError("checkpoint " + path + ": '" + name +
                       "' can't be part of it; it holds plain files beside its manifest");
    }
    manifest.files[name] = measure(entry.path().string());
  }
}

}  // namespace

std::optional<std::int64_t> step_of(std::string name) {
  if (name.ends_with(kReplaced)) name.resize(name.size() - kReplaced.size());
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  for (const char c : name.substr(kPrefix.size())) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(step, std::int64_t{10}, &step) ||
        __builtin_add_overflow(step, std::int64_t{c - '0'}, &step)) {
      return std::nullopt;
    }
  }
  if (name != name_of(step)) return std::nullopt;
  return step;
}

std::error_code remove_checkpoint(const std::string& path) {
  const fs::path aside = fs::path(path).parent_path() / (".partial-removed-" + last_part(path));
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (!error) fs::remove_all(aside, error);
  return error;
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
    if (name.ends_with(kReplaced)) {
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

std::string CheckpointFolder::write(Manifest manifest,
                                    const std::function<void(const std::string& folder)>& fill,
                                    const Retention& retention) const {
  if (retention.last < 1) throw UsageError("the last checkpoint is always kept: last >= 1");
  if (manifest.step < 0) throw UsageError("a checkpoint's step can't be negative");
  const std::string path = (fs::path(folder_) / name_of(manifest.step)).string();
  std::string partial;
  const auto failure = [&](std::string reason) {
    // The temporary name says nothing to anybody, and is gone.
    const std::size_t at = partial.empty() ? std::string::npos : reason.find(partial);
    if (at != std::string::npos) reason.replace(at, partial.size(), path);
    const bool replaces = fs::exists(path);
    const std::string usable = newest_usable(*this, manifest.step + (replaces ? 1 : 0));
    return Failure("checkpoint " + path + " was not written: " + reason + "; " +
                   (usable.empty() ? "there is no earlier one" : usable + " stays usable"));
  };
  try {
    write_folder_atomically(
        path,
        [&](const std::string& folder) {
          partial = folder;
          fill(folder);
          manifest.files.clear();
          add_files(folder, path, manifest);
          write_file_atomically((fs::path(folder) / kManifest).string(), to_json(manifest));
        },
        Existing::replace);
  } catch (const Failure& error) {
    throw failure(error.what());
  } catch (const std::system_error& error) {  // with std::filesystem's own
    throw failure(error.what());
  }
  std::error_code ignored;
  fs::remove_all(path + std::string(kReplaced), ignored);
  retain(*this, manifest.step, retention);
  return path;
}

std::string CheckpointFolder::set_aside_after(std::int64_t step) const {
  std::string aside;
  for (const std::string& path : list()) {
    if (*step_of(last_part(path)) <= step) continue;
    for (int n = 1; aside.empty(); ++n) {
      const std::string free = folder_ + "/superseded-" + std::to_string(n);
      if (fs::exists(fs::symlink_status(free))) continue;
      make_folders(free);
      aside = free;
    }
    std::error_code error;
    fs::rename(path, fs::path(aside) / last_part(path), error);
    if (error) throw Failure("cannot move " + path + " to " + aside + ": " + error.message());
  }
  return aside;
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

Manifest open_checkpoint(const std::string& path) {
  std::string problem;
  try {
    std::error_code error;
    if (!fs::is_directory(path, error)) throw UsageError(path + " is not a checkpoint's folder");
    return verify(path);
  } catch (const UsageError& error) {
    problem = error.what();
  } catch (const Failure& error) {  // a disk that gives read errors is damage, too
    problem = error.what();
  }
  const std::optional<std::int64_t> step = step_of(last_part(path));
  if (!step) throw UsageError(problem);
  std::string parent = fs::path(path).lexically_normal().parent_path().string();
  if (!fs::path(path).has_filename()) parent = fs::path(parent).parent_path().string();
  const std::string usable = newest_usable(CheckpointFolder(parent.empty() ? "." : parent), *step);
  throw UsageError(problem + "; " +
                   (usable.empty() ? "there is no earlier checkpoint that is whole"
                                   : "the newest whole one before it is " + usable));
}

}  // namespace convoy::train
