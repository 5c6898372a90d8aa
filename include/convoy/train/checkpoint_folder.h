// The checkpoints of a run on disk: which there are, whether they are whole, which to keep.
// Torch-free: what the tensors mean is said in convoy/train/state.h.
//
//   RUN/checkpoints/step-000000001200/
//     manifest.json        scalars, positions, and which slice of which tensor is where
//     part-0.safetensors   what rank 0 wrote: slices of the model's tensors, of the optimizer's,
//     and part-1.safetensors   of what is a rank's own; and so on
//
// docs/formats/checkpoint.md has every field.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/slice.h"
#include "convoy/data/sample_source.h"

namespace convoy::train {

// This is a file beside the manifest.
struct FileEntry {
  std::uint64_t bytes = 0;
  std::uint64_t hashed = 0;  // xxh3 is of so many bytes at its beginning
  std::uint64_t xxh3 = 0;
  bool operator==(const FileEntry&) const = default;
};

// This is what a tensor belongs to.
enum class TensorGroup : std::uint8_t {
  model,      // parameters and buffers, under their names
  optimizer,  // "<slot>/<parameter>": momentum_buffer/conv1.weight
  rank        // what differs between ranks: "<rank>/<buffer>"
};

// This is a slice of a tensor in a file, in C order.
struct StoredSlice {
  std::string file;
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
  std::uint64_t offset = 0;           // of its first byte in the file
  std::optional<std::uint64_t> xxh3;  // of its bytes; nothing where the file's checksum covers them
  bool operator==(const StoredSlice&) const = default;
};

// This is a tensor, cut into slices that hold every element once.
struct StoredTensor {
  TensorGroup group = TensorGroup::model;
  std::string name;
  std::string type;  // as in safetensors files
  std::vector<std::int64_t> shape;
  std::vector<StoredSlice> slices;  // none if it has no elements

  Slice slice(const StoredSlice& stored) const;
  std::uint64_t bytes(const StoredSlice& stored) const;
  bool operator==(const StoredTensor&) const = default;
};

// manifest.json. Keys that are not known are ignored; a newer `format` is refused. Texts that are
// not UTF-8 (a class named after a folder) are written with replacement characters.
struct Manifest {
  static constexpr int kFormat = 2;

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
  // This is the figure that `best` goes by; empty: an earlier version didn't say, see figure_of().
  std::string metric;
  // This is its value, if it was measured at this step; greater is better.
  std::optional<double> score;
  // Fingerprint of what the run measures its scores on: the samples, and how they are prepared and
  // looked at. Nothing: an earlier version didn't say, or there is no evaluation.
  std::optional<std::uint64_t> measured_on;
  // These are tensors that are one and the same: name -> the name under which it is stored.
  std::map<std::string, std::string> aliases;
  // These are numbers of the strategy by name ("optimizer.step", "reducer.nominal_samples").
  std::map<std::string, double> numbers;
  // Lists of names of the strategy ("reducer.order").
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, FileEntry> files;
  std::vector<StoredTensor> tensors;  // by group and name
  // This is the format of the file it was read from. open_checkpoint() finds the tensors of older
  // formats, and a manifest is always written in the newest.
  int format = kFormat;

  bool operator==(const Manifest&) const = default;
};

// The text ends with a checksum of itself.
std::string to_json(const Manifest& manifest);
// Throws UsageError when the checksum is wrong, or saying which key is missing or wrong; `name`
// stands in the message.
Manifest manifest_from_json(const std::string& text, const std::string& name);

// Gives the figure that the manifest's score is of. Where an earlier version didn't say, the recipe
// does; empty: not even that, it is the usual one of a plugin's task.
std::string figure_of(const Manifest& manifest);

struct Retention {
  int last = 3;                        // the newest so many; at least 1
  bool best = true;                    // and the one that CheckpointFolder::best() says
  std::vector<std::string> keep = {};  // names or paths of checkpoints that are never removed
};

// This is a checkpoint that is being written: its parts are put into folder(), and commit() makes
// it one. Without commit(), nothing of it is left. One thread at a time.
class CheckpointDraft {
 public:
  // Begins the checkpoint of the step, in the folder of checkpoints `parent`. Throws as commit()
  // does. `given_up`, if there is one, is asked while failure() reads: when it is true, failure()
  // says nothing of earlier checkpoints.
  CheckpointDraft(std::string parent, std::int64_t step, std::function<bool()> given_up = {});

  const std::string& folder() const { return draft_->partial(); }
  const std::string& path() const { return path_; }  // to be
  // Writes manifest.json last, syncs everything and renames the folder. A checkpoint of the same
  // step is replaced. Afterwards earlier ones that `retention` doesn't cover are removed; later
  // ones and any whose manifest can't be read are left alone and not counted. If anything fails,
  // what was there before is untouched. Returns the path. Throws failure(), and UsageError when the
  // folder holds other files than the manifest names. `confirm`, if there is one, is called when
  // all is written, right before the folder is renamed; a Failure of its is a reason not to. Where
  // earlier ones can't be looked through, the checkpoint is there all the same: see warning().
  std::string commit(const Manifest& manifest, const Retention& retention,
                     const std::function<void()>& confirm = {});
  // After commit(): says why earlier checkpoints are all kept, which `retention` may not cover;
  // empty where there is nothing to say.
  const std::string& warning() const { return warning_; }
  // Gives what to throw when it can't be written: it names the checkpoint, the reason, and which
  // earlier checkpoint stays usable, for which it reads those. The draft's folder is removed.
  Failure failure(std::string reason);

 private:
  std::string parent_;
  std::int64_t step_;
  std::string path_;
  std::function<bool()> given_up_;
  std::optional<AtomicFolder> draft_;
  std::string warning_;
};

// One process writes at a time; reading is safe beside it.
class CheckpointFolder {
 public:
  // RUN/checkpoints; made by the first write().
  explicit CheckpointFolder(std::string folder);

  const std::string& folder() const { return folder_; }
  // Gives paths of complete checkpoints, oldest first (by step). Not verified.
  std::vector<std::string> list() const;

  // Moves the checkpoints of later steps to superseded-<n>, a new folder in this one, for a run
  // that goes on from `step` and would otherwise take what it left behind for newer ones. They stay
  // whole, and nothing here lists or removes them. Returns that folder, or nothing if there are no
  // later ones. Throws Failure naming the checkpoint that can't be moved.
  std::string set_aside_after(std::int64_t step) const;

  // Gives a checkpoint of this folder the score that it was written without, and removes earlier
  // ones that `retention` then doesn't cover. Until the score is there, and where the disk doesn't
  // take it (a Failure), the checkpoint is whole as it was. Returns what CheckpointDraft::warning()
  // says: why earlier ones are all kept, or nothing.
  std::string add_score(const std::string& checkpoint, double score,
                        const Retention& retention) const;

  // Gives the path of the newest checkpoint; empty if there is none.
  std::string newest() const;
  // Gives the newest one before this, or empty.
  std::string before(const std::string& checkpoint) const;
  // Gives the one with the highest score, the earliest of equals, or empty. Scores of another
  // figure than the newest checkpoint goes by don't count, nor those that were measured on
  // something else. Skips those whose manifest can't be read.
  std::string best() const;
  // Finds the same by the scores that this one goes by, among those up to its step.
  std::string best_like(const Manifest& manifest) const;

 private:
  std::string folder_;
};

enum class Which { newest, best };

// Gives the checkpoint that `path` names: itself, or the newest or best one of a run folder. Throws
// UsageError when it is neither, or the run has none.
std::string checkpoint_in(const std::string& path, Which which);

// Reads the manifest of a checkpoint and makes sure that every file it names is there, has the
// right size, and begins as it should: all of it but the elements of tensors, which have checksums
// of their own that whoever reads them compares. (The files of format 1 have no others: they are
// read here.) Throws UsageError naming the file and what is wrong with it, and the newest
// checkpoint before it that is whole, tensors included, if there is one. Files that the manifest
// doesn't name are ignored.
Manifest open_checkpoint(const std::string& path);

// Does the same, with every tensor.
Manifest verify_checkpoint(const std::string& path);

// Makes an error of a problem that was found in a checkpoint; it names the newest whole one before
// it.
UsageError damaged_checkpoint(const std::string& path, const std::string& problem);

}  // namespace convoy::train
