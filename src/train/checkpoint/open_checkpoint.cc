// Reading a checkpoint's manifest, and what of its files can be told without reading tensors.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "convoy/base/checksum.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/open_checkpoint.h"
#include "train/checkpoint/slice_reader.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kManifestLimit = std::size_t{1} << 30;

// Size, and the checksum of what is to be hashed, read in pieces: a file may be larger than memory,
// and a mapping would end the process if it shrank. Throws UsageError.
void check_file(const std::string& path, const FileEntry& expected) {
  const auto bad = [&path](const std::string& why) { return UsageError(path + " " + why); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open() && errno == ENOENT) throw bad("is missing");
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) {
    throw bad(std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw bad("is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) != expected.bytes) {
    throw bad("is damaged: it has " + std::to_string(status.st_size) +
              " bytes, the manifest says " + std::to_string(expected.bytes));
  }
  std::vector<std::byte> buffer(std::clamp<std::size_t>(expected.hashed, 1, std::size_t{1} << 20));
  Xxh3 hash;
  for (std::uint64_t left = expected.hashed; left > 0;) {
    const ssize_t got =
        ::read(file.get(), buffer.data(), std::min<std::size_t>(left, buffer.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw bad(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) throw bad("is damaged: it ends early");
    hash.update(std::span(buffer).first(static_cast<std::size_t>(got)));
    left -= static_cast<std::uint64_t>(got);
  }
  if (hash.digest() != expected.xxh3) {
    const bool all = expected.hashed == expected.bytes;
    throw bad(std::string("is damaged: ") + (all ? "its checksum" : "the checksum of its header") +
              " is " + to_hex(hash.digest()) + ", the manifest says " + to_hex(expected.xxh3));
  }
}

// Throws UsageError, or Failure where a disk gives read errors.
Manifest open_files(const std::string& checkpoint) {
  std::error_code error;
  if (!fs::is_directory(checkpoint, error)) {
    throw UsageError(checkpoint + " is not a checkpoint's folder");
  }
  Manifest manifest = read_manifest(checkpoint);
  check_files(checkpoint, manifest);
  if (manifest.format == 1) manifest.tensors = tensors_of_format_1(checkpoint, manifest.files);
  return manifest;
}

// What else is wrong with one that open_files() takes.
void check_slices(const std::string& checkpoint, const Manifest& manifest,
                  const std::function<bool()>& given_up = {}) {
  SliceReader reader(checkpoint);
  const auto take = [&given_up](const Slice&, std::span<const std::byte>) {
    if (given_up && given_up()) throw Failure("nobody waits for it");
  };
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const StoredSlice& stored : tensor.slices) {
      if (stored.xxh3) reader.read(tensor, stored, take);
    }
  }
}

Manifest guarded(const std::string& path, bool tensors_too) {
  std::string problem;
  try {
    Manifest manifest = open_files(path);
    if (tensors_too) check_slices(path, manifest);
    return manifest;
  } catch (const UsageError& error) {
    problem = error.what();
  } catch (const Failure& error) {  // a disk that gives read errors is damage, too
    problem = error.what();
  }
  throw damaged_checkpoint(path, problem);
}

}  // namespace

Manifest read_manifest(const std::string& checkpoint) {
  const std::string path = (fs::path(checkpoint) / kManifestFile).string();
  return manifest_from_json(read_text_file(path, kManifestLimit), path);
}

void check_files(const std::string& checkpoint, const Manifest& manifest) {
  for (const auto& [name, expected] : manifest.files)
    check_file((fs::path(checkpoint) / name).string(), expected);
}

std::string newest_usable(const CheckpointFolder& folder, std::int64_t step,
                          const std::function<bool()>& given_up) {
  std::vector<std::string> all;
  try {
    all = folder.list();
  } catch (const UsageError&) {  // it is no folder: that is said elsewhere
  }
  for (auto checkpoint = all.rbegin(); checkpoint != all.rend(); ++checkpoint) {
    if (*step_of(last_part(*checkpoint)) >= step) continue;
    if (given_up && given_up()) return "";
    try {
      check_slices(*checkpoint, open_files(*checkpoint), given_up);
      return *checkpoint;
    } catch (const std::exception&) {
    }
  }
  return "";
}

UsageError damaged_checkpoint(const std::string& path, const std::string& problem) {
  const std::optional<std::int64_t> step = step_of(last_part(path));
  if (!step) return UsageError(problem);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return UsageError(problem +
                      "; nothing is there: a run that goes on removes the checkpoints that it does "
                      "not keep (checkpoint.keep), and then has a newer one");
  }
  std::string parent = fs::path(path).lexically_normal().parent_path().string();
  if (!fs::path(path).has_filename()) parent = fs::path(parent).parent_path().string();
  const std::string usable = newest_usable(CheckpointFolder(parent.empty() ? "." : parent), *step);
  return UsageError(problem + "; " +
                    (usable.empty() ? "there is no earlier checkpoint that is whole"
                                    : "the newest whole one before it is " + usable));
}

std::string checkpoint_in(const std::string& path, Which which) {
  if (fs::exists(path + "/" + kManifestFile)) return path;
  if (!fs::is_directory(path)) {
    throw UsageError(path + " is no run folder, no checkpoint and no recipe (.toml)");
  }
  const CheckpointFolder folder(path + "/checkpoints");
  const std::string found = which == Which::best ? folder.best() : folder.newest();
  if (found.empty()) throw UsageError("there is no checkpoint in " + folder.folder());
  return found;
}

Manifest open_checkpoint(const std::string& path) { return guarded(path, false); }

FoundCheckpoint open_checkpoint_in(const std::string& path, Which which) {
  constexpr int kTries = 5;  // it is never as fast as that
  for (int i = 1;; ++i) {
    FoundCheckpoint found{checkpoint_in(path, which), {}};
    try {
      found.manifest = open_checkpoint(found.path);
      return found;
    } catch (const UsageError&) {
      std::error_code ignored;
      if (i == kTries || found.path == path || fs::exists(found.path, ignored)) throw;
    }
  }
}

Manifest verify_checkpoint(const std::string& path) { return guarded(path, true); }

}  // namespace convoy::train
