// Writing a part of a checkpoint: into a file, or to the rank that owns the folder. Torch-free.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/comm/communicator.h"
#include "train/checkpoint/plan.h"

namespace convoy::train {

// Where the bytes of a part go, in order. Throws Failure.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void finish() = 0;  // once, after the last byte: it has arrived
};

// Syncs now and then: no call takes as long as a large file takes to get to a slow disk.
class PartFile final : public PartSink {
 public:
  explicit PartFile(const std::string& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) override;
  void finish() override { file_.commit(); }

 private:
  AtomicFile file_;
  std::size_t unsynced_ = 0;
};

// The bytes that a rank sends at once when `streams` ranks send their parts to rank 0, which has as
// much memory for each.
std::size_t stream_piece(std::size_t streams);

// Waits, and throws Failure when `cancelled` becomes true.
void wait_unless(comm::Operation& operation, const std::atomic<bool>& cancelled);

// To rank 0, which calls receive_parts() meanwhile.
class PartStream final : public PartSink {
 public:
  PartStream(const comm::Communicator& communicator, std::size_t piece,
             const std::atomic<bool>& cancelled);
  void write(std::span<const std::byte> bytes) override;
  void finish() override;

 private:
  void send();

  const comm::Communicator& communicator_;
  const std::atomic<bool>& cancelled_;
  std::vector<std::byte> piece_;
  std::size_t used_ = 0;
};

// A part that a rank sends.
struct IncomingPart {
  int rank = 0;
  std::string path;
  std::uint64_t bytes = 0;
};

// Writes what ranks send into files, all at the same time. Whatever goes wrong with a file, what is
// sent is taken to its end; then the first Failure is thrown.
void receive_parts(const comm::Communicator& communicator, const std::vector<IncomingPart>& parts,
                   const std::atomic<bool>& cancelled);

// Gives the bytes of slice `index` of a part, in order, in pieces of at most kPieceBytes.
using PartBytes = std::function<void(std::size_t index,
                                     const std::function<void(std::span<const std::byte>)>& take)>;

// Writes a part; returns the checksums of its slices, in their order there. Throws Failure also
// when `cancelled` becomes true.
std::vector<std::uint64_t> write_part(PartSink& sink, const PlannedPart& part,
                                      const PartBytes& bytes, const std::atomic<bool>& cancelled);

}  // namespace convoy::train
