// Writing a part of a checkpoint: into a file, or to the rank that owns the folder. Torch-free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/comm/communicator.h"
#include "train/checkpoint/plan.h"

namespace convoy::train {

// Called again and again while a part is written. Throws when it is not to be written to its end.
using Meanwhile = std::function<void()>;

// Where the bytes of a part go, in order. Throws Failure.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual void write(std::span<const std::byte> bytes, const Meanwhile& meanwhile) = 0;
  virtual void finish(const Meanwhile& meanwhile) = 0;  // once, after the last byte: it has arrived
  // Instead: nothing more will come. Throws nothing.
  virtual void give_up() {}
};

// Syncs now and then: no call takes as long as a large file takes to get to a slow disk.
class PartFile final : public PartSink {
 public:
  explicit PartFile(const std::string& path) : file_(path) {}
  void write(std::span<const std::byte> bytes, const Meanwhile& meanwhile) override;
  void finish(const Meanwhile&) override { file_.commit(); }

 private:
  AtomicFile file_;
  std::size_t unsynced_ = 0;
};

// The bytes that a rank sends at once when `streams` ranks send their parts to rank 0, which has as
// much memory for each.
std::size_t stream_piece(std::size_t streams);

// Before each piece of a part, and where the rest won't come.
enum class StreamNote : std::uint8_t { piece = 1, gave_up = 2 };

// Sends a part to rank 0, which runs a PartReceiver meanwhile.
class PartStream final : public PartSink {
 public:
  // Has all the memory that it will need.
  PartStream(const comm::Communicator& communicator, std::size_t piece);
  void write(std::span<const std::byte> bytes, const Meanwhile& meanwhile) override;
  void finish(const Meanwhile& meanwhile) override;
  void give_up() override;

 private:
  void send(const Meanwhile& meanwhile);

  const comm::Communicator& communicator_;
  std::array<std::uint8_t, 1> note_{};
  std::vector<std::byte> piece_;
  std::size_t used_ = 0;
};

// A part that a rank sends.
struct IncomingPart {
  int rank = 0;
  std::string path;
  std::uint64_t bytes = 0;
};

// Writes what ranks send into files, all at the same time.
class PartReceiver {
 public:
  // Has all the memory that it will need.
  PartReceiver(const comm::Communicator& communicator, const std::vector<IncomingPart>& parts);
  ~PartReceiver();
  // Once. Whatever goes wrong with a file, what is sent is taken to its end; then the first Failure
  // is thrown. A rank that gives up leaves no file: what its trouble was is for it to say.
  void run(const Meanwhile& meanwhile);

 private:
  class Arrival;
  std::vector<std::unique_ptr<Arrival>> arrivals_;
};

// Gives the bytes of slice `index` of a part, in order, in pieces of at most kPieceBytes.
using PartBytes = std::function<void(std::size_t index,
                                     const std::function<void(std::span<const std::byte>)>& take)>;

// Writes a part; returns the checksums of its slices, in their order there. Throws what bytes, sink
// and `meanwhile` do, after the sink has been given up.
std::vector<std::uint64_t> write_part(PartSink& sink, const PlannedPart& part,
                                      const PartBytes& bytes, const Meanwhile& meanwhile);

}  // namespace convoy::train
