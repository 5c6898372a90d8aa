#include "train/checkpoint/part_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "train/checkpoint/slice_reader.h"

namespace convoy::train {
namespace {

constexpr std::size_t kLeastPiece = 256 << 10;
constexpr std::chrono::microseconds kPause(300);
constexpr std::size_t kSyncBytes = std::size_t{64} << 20;

// A part that is arriving.
class Arrival {
 public:
  Arrival(const comm::Communicator& communicator, const IncomingPart& part, std::size_t piece)
      : communicator_(communicator),
        part_(part),
        buffer_(std::min<std::size_t>(piece, part.bytes)) {
    guard([this] { file_.emplace(part_.path); });
    receive();
  }

  // Whether a piece has come; it is written then.
  bool advance() {
    if (!operation_.valid() || !operation_.done()) return false;
    operation_.wait();
    const auto piece = std::span<const std::byte>(buffer_).first(expected_);
    guard([&] { file_->write(piece); });
    left_ -= expected_;
    if (left_ > 0) {
      receive();
    } else {
      guard([this] { file_->finish(); });
    }
    return true;
  }
  bool complete() const { return left_ == 0; }
  const std::string& problem() const { return problem_; }

 private:
  template <class F>
  void guard(F&& work) {
    if (!problem_.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      problem_ = message_of(error);
      file_.reset();
    }
  }
  void receive() {
    expected_ = std::min<std::uint64_t>(buffer_.size(), left_);
    operation_ = communicator_.start_receive(
        comm::Buffer(buffer_.data(), expected_, comm::Type::u8), part_.rank);
  }

  const comm::Communicator& communicator_;
  const IncomingPart& part_;
  std::optional<PartFile> file_;
  std::string problem_;
  std::vector<std::byte> buffer_;
  std::size_t expected_ = 0;
  std::uint64_t left_ = part_.bytes;
  comm::Operation operation_;
};

}  // namespace

void PartFile::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  unsynced_ += bytes.size();
  if (unsynced_ < kSyncBytes) return;
  file_.sync();
  unsynced_ = 0;
}

std::size_t stream_piece(std::size_t streams) {
  return std::max(kLeastPiece, kPieceBytes / std::max<std::size_t>(streams, 1));
}

void wait_unless(comm::Operation& operation, const std::atomic<bool>& cancelled) {
  while (!operation.done()) {
    if (cancelled) throw Failure("the checkpoint was given up");
    std::this_thread::sleep_for(kPause);
  }
  operation.wait();
}

PartStream::PartStream(const comm::Communicator& communicator, std::size_t piece,
                       const std::atomic<bool>& cancelled)
    : communicator_(communicator), cancelled_(cancelled), piece_(piece) {}

void PartStream::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), piece_.size() - used_);
    std::memcpy(piece_.data() + used_, bytes.data(), size);
    used_ += size;
    bytes = bytes.subspan(size);
    if (used_ == piece_.size()) send();
  }
}

void PartStream::finish() {
  if (used_ > 0) send();
}

void PartStream::send() {
  comm::Operation sent =
      communicator_.start_send(comm::ConstBuffer(piece_.data(), used_, comm::Type::u8), 0);
  wait_unless(sent, cancelled_);
  used_ = 0;
}

void receive_parts(const comm::Communicator& communicator, const std::vector<IncomingPart>& parts,
                   const std::atomic<bool>& cancelled) {
  std::vector<std::unique_ptr<Arrival>> arrivals;
  for (const IncomingPart& part : parts) {
    arrivals.push_back(std::make_unique<Arrival>(communicator, part, stream_piece(parts.size())));
  }
  const auto complete = [](const auto& arrival) { return arrival->complete(); };
  while (!std::all_of(arrivals.begin(), arrivals.end(), complete)) {
    bool moved = false;
    for (const auto& arrival : arrivals) moved = arrival->advance() || moved;
    if (cancelled) throw Failure("the checkpoint was given up");
    if (!moved) std::this_thread::sleep_for(kPause);
  }
  for (const auto& arrival : arrivals) {
    if (!arrival->problem().empty()) throw Failure(arrival->problem());
  }
}

std::vector<std::uint64_t> write_part(PartSink& sink, const PlannedPart& part,
                                      const PartBytes& bytes, const std::atomic<bool>& cancelled) {
  std::vector<std::uint64_t> checksums;
  sink.write(std::as_bytes(std::span(part.layout.head)));
  for (std::size_t i = 0; i < part.slices.size(); ++i) {
    Xxh3 hash;
    bytes(i, [&](std::span<const std::byte> piece) {
      if (cancelled) throw Failure("the checkpoint was given up");
      hash.update(piece);
      sink.write(piece);
    });
    checksums.push_back(hash.digest());
  }
  sink.finish();
  return checksums;
}

}  // namespace convoy::train
