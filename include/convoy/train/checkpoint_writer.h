// Writing checkpoints while training goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/state.h"

namespace convoy::train {

struct CheckpointOptions {
  Retention retention = {};
  // What a rank writes is copied first, and written while training goes on. Otherwise, and where
  // there is no memory for the copy, begin() writes it.
  bool asynchronous = true;
  // This is the most that the copies of all ranks of a host may take; 0: half of what is free when
  // one is made.
  std::uint64_t memory = 0;
  int ranks_of_host = 1;
  // On rank 0, called from any thread when a checkpoint is whole, right before it gets its name:
  // what it throws is why it doesn't. Whether the run still has the folder, say.
  std::function<void()> confirm = {};
};

// This is what came of a checkpoint; path, step and score are the same on every rank, and rank 0
// has the warning.
struct WrittenCheckpoint {
  std::string path;
  std::int64_t step = 0;
  std::optional<double> score;
  double seconds = 0;        // from begin() to its being there
  double held_s = 0;         // of those in begin(), until training could go on
  std::uint64_t copied = 0;  // bytes; 0: it was written from where it was
  bool asynchronous = false;
  std::string warning;  // why earlier ones are all kept; empty: they are not, or should be
};

// These are the checkpoints of a run, written by the ranks of a communicator into a folder that
// belongs to rank 0. Each rank that holds something writes its part: into the folder where it sees
// it, through rank 0 where it doesn't (a file made there shows which). The manifest comes last.
//
// Every function is collective: all ranks call the same ones in the same order. One thread at a
// time; a thread of this object's own writes, and uses the state that it was given no more than
// begin() takes. Where only one thread may communicate (below MPI_THREAD_MULTIPLE),
// what goes through rank 0 does so in begin(). The destructor gives up what is not finished, and
// nothing of it is left.
//
// Errors: a Failure on every rank that names the checkpoint, the rank, what the system said, and
// which earlier checkpoint stays usable; after it, another one may be begun. UsageError for a state
// that can't be written. However long a rank writes, it is no failure: in begin(), too, ranks tell
// each other that they do.
class CheckpointWriter {
 public:
  CheckpointWriter(const comm::Communicator& communicator, CheckpointFolder folder,
                   CheckpointOptions options);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Makes memory ready for copies of such a state, while training goes on; begin() does it
  // otherwise, which may take longer than to copy. It is kept for all checkpoints. REQUIRES: none
  // is being written.
  void reserve(const State& state);

  // Begins to write a checkpoint of `manifest.step`; aliases, files and tensors of the manifest
  // come from the state, numbers and lists from both. The state's tensors may be changed when it
  // returns. REQUIRES: none is being written.
  void begin(Manifest manifest, const State& state);

  // Is called between updates, and does what is told from rank to rank while a checkpoint is being
  // written. It is cheap, and waits for nobody who calls it as often. Returns the checkpoint when
  // it is there, once.
  std::optional<WrittenCheckpoint> poll();

  // Does the same, but waits for the checkpoint that is being written, if there is one.
  std::optional<WrittenCheckpoint> finish();

  bool writing() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
