// The checkpoints of a run on disk: which there are, whether they are whole, which to keep.
// Torch-free: what the tensors mean is said in convoy/train/state.h.
//
//   RUN/checkpoints/step-000000001200/
//     manifest.json          scalars, positions, and size and checksum of every other file
//     model.safetensors      parameters and buffers under torchvision-style names
//     optimizer.safetensors  "<slot>/<parameter>", e.g. "momentum_buffer/conv1.weight"
//     ranks.safetensors      what differs between ranks, "<rank>/<buffer>" (only if anything does)
//
// docs/formats/checkpoint.md has every field.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/data/sample_source.h"

namespace convoy::train {

struct FileEntry {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
  bool operator==(const FileEntry&) const = default;
};

// manifest.json. Keys that are not known are ignored; a newer `format` is refused. Texts that are
// not UTF-8 (a class named after a folder) are written with replacement characters.
struct Manifest {
  static constexpr int kFormat = 1;

  std::string model;     // its name in the recipe
  std::string strategy;  // which one wrote it
  std::string recipe;    // the complete recipe as TOML
  std::vector<std::string> classes;
  std::int64_t step = 0;  // updates done
  data::Position position;
  int world = 1;              // ranks of the job that wrote it
  std::uint64_t samples = 0;  // in the data set
  std::uint64_t data_fingerprint = 0;
  double seconds = 0;  // of training so far, over all resumed parts
  // The value that `best` goes by, if it was measured at this step; greater is better.
  std::optional<double> score;
  // Tensors that are one and the same: name -> the name under which it is stored.
  std::map<std::string, std::string> aliases;
  // Numbers of the strategy by name ("optimizer.step", "reducer.nominal_samples").
  std::map<std::string, double> numbers;
  // Lists of names of the strategy ("reducer.order").
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, FileEntry> files;  // filled in by CheckpointFolder::write

  bool operator==(const Manifest&) const = default;
};

// The text ends with a checksum of itself.
std::string to_json(const Manifest& manifest);
// Throws UsageError when the checksum is wrong, or saying which key is missing or wrong; `name`
// stands in the message.
Manifest manifest_from_json(const std::string& text, const std::string& name);

struct Retention {
  int last = 3;                        // the newest so many; at least 1
  bool best = true;                    // and the one with the highest score, the earliest of equals
  std::vector<std::string> keep = {};  // names or paths of checkpoints that are never removed
};

// One process writes at a time; reading is safe beside it.
class CheckpointFolder {
 public:
  // RUN/checkpoints; made by the first write().
  explicit CheckpointFolder(std::string folder);

  const std::string& folder() const { return folder_; }
  // Paths of complete checkpoints, oldest first (by step). Not verified.
  std::vector<std::string> list() const;

  // Adds step-<manifest.step>: `fill` writes the other files into the folder it is given (no
  // subfolders), then sizes and checksums are taken, manifest.json is written, everything synced
  // and renamed. A checkpoint of the same step is replaced. Afterwards earlier ones that
  // `retention` doesn't cover are removed; later ones and any whose manifest can't be read are left
  // alone and not counted. If anything fails, what was there before is untouched. Returns the path.
  // Throws Failure that names the checkpoint and what the system said, and which earlier checkpoint
  // stays usable.
  std::string write(Manifest manifest, const std::function<void(const std::string& folder)>& fill,
                    const Retention& retention) const;

  // Moves the checkpoints of later steps to superseded-<n>, a new folder in this one, for a run
  // that goes on from `step` and would otherwise take what it left behind for newer ones. They stay
  // whole, and nothing here lists or removes them. Returns that folder, or nothing if there are no
  // later ones. Throws Failure naming the checkpoint that can't be moved.
  std::string set_aside_after(std::int64_t step) const;

  // The path of the newest checkpoint; empty if there is none.
  std::string newest() const;
  // The newest one before this, or empty.
  std::string before(const std::string& checkpoint) const;
  // The one with the highest score, the earliest of equals, or empty. Skips those whose manifest
  // can't be read.
  std::string best() const;

 private:
  std::string folder_;
};

// Reads and verifies one checkpoint: the manifest, and size and checksum of every file. Throws
// UsageError naming the file and what is wrong with it, and the newest checkpoint before it that
// passes the same test, if there is one. Files that the manifest doesn't name are ignored.
Manifest open_checkpoint(const std::string& path);

}  // namespace convoy::train
