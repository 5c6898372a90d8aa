#include "train/checkpoint/part_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "train/checkpoint/slice_reader.h"

namespace convoy::train {
namespace {

constexpr std::size_t kLeastPiece = 256 << 10;
constexpr std::chrono::microseconds kPause(300);
constexpr std::size_t kSyncBytes = std::size_t{64} << 20;

// Waits for what may take as long as a disk at its other end needs.
void wait_for(comm::Operation& operation, const Meanwhile& meanwhile) {
  while (!operation.done()) {
    meanwhile();
    std::this_thread::sleep_for(kPause);
  }
  operation.wait();
}

}  // namespace

// A part that is arriving.
class PartReceiver::Arrival {
 public:
  Arrival(const comm::Communicator& communicator, IncomingPart part, std::size_t piece)
      : communicator_(communicator),
        part_(std::move(part)),
        buffer_(std::min<std::size_t>(piece, part_.bytes)) {}

  void start() {
    guard([this] { file_.emplace(part_.path); });
    receive_note();
  }

  // Whether a message has come; a piece is written then.
  bool advance(const Meanwhile& meanwhile) {
    if (!operation_.valid() || !operation_.done()) return false;
    operation_.wait();
    if (expected_ == 0) {
      receive_piece();
      return true;
    }
    const auto piece = std::span<const std::byte>(buffer_).first(expected_);
    guard([&] { file_->write(piece, meanwhile); });
    left_ -= expected_;
    if (left_ > 0) {
      receive_note();
    } else {
      guard([&] { file_->finish(meanwhile); });
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
  void receive_note() {
    expected_ = 0;
    operation_ = communicator_.start_receive(comm::buffer_of(note_), part_.rank);
  }
  void receive_piece() {
    if (note_[0] != static_cast<std::uint8_t>(StreamNote::piece)) {
      file_.reset();
      left_ = 0;
      return;
    }
    expected_ = std::min<std::uint64_t>(buffer_.size(), left_);
    operation_ = communicator_.start_receive(
        comm::Buffer(buffer_.data(), expected_, comm::Type::u8), part_.rank);
  }

  const comm::Communicator& communicator_;
  const IncomingPart part_;
  std::optional<PartFile> file_;
  std::string problem_;
  std::array<std::uint8_t, 1> note_{};
  std::vector<std::byte> buffer_;
  std::size_t expected_ = 0;  // of a piece; 0: a note is to come
  std::uint64_t left_ = part_.bytes;
  comm::Operation operation_;
};

void PartFile::write(std::span<const std::byte> bytes, const Meanwhile&) {
  file_.write(bytes);
  unsynced_ += bytes.size();
  if (unsynced_ < kSyncBytes) return;
  file_.sync();
  unsynced_ = 0;
}

std::size_t stream_piece(std::size_t streams) {
  return std::max(kLeastPiece, kPieceBytes / std::max<std::size_t>(streams, 1));
}

PartStream::PartStream(const comm::Communicator& communicator, std::size_t piece)
    : communicator_(communicator), piece_(piece) {}

void PartStream::write(std::span<const std::byte> bytes, const Meanwhile& meanwhile) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), piece_.size() - used_);
    std::memcpy(piece_.data() + used_, bytes.data(), size);
    used_ += size;
    bytes = bytes.subspan(size);
    if (used_ == piece_.size()) send(meanwhile);
  }
}

void PartStream::finish(const Meanwhile& meanwhile) {
  if (used_ > 0) send(meanwhile);
}

void PartStream::send(const Meanwhile& meanwhile) {
  note_[0] = static_cast<std::uint8_t>(StreamNote::piece);
  comm::Operation note = communicator_.start_send(comm::buffer_of(note_), 0);
  wait_for(note, meanwhile);
  comm::Operation piece =
      communicator_.start_send(comm::ConstBuffer(piece_.data(), used_, comm::Type::u8), 0);
  wait_for(piece, meanwhile);
  used_ = 0;
}

void PartStream::give_up() {
  try {
    note_[0] = static_cast<std::uint8_t>(StreamNote::gave_up);
    comm::Operation note = communicator_.start_send(comm::buffer_of(note_), 0);
    wait_for(note, [] {});
  } catch (const std::exception&) {  // the world has failed, and rank 0 knows
  }
}

PartReceiver::PartReceiver(const comm::Communicator& communicator,
                           const std::vector<IncomingPart>& parts) {
  for (const IncomingPart& part : parts)
    arrivals_.push_back(std::make_unique<Arrival>(communicator, part, stream_piece(parts.size())));
}

PartReceiver::~PartReceiver() = default;

void PartReceiver::run(const Meanwhile& meanwhile) {
  for (const auto& arrival : arrivals_) arrival->start();
  const auto complete = [](const auto& arrival) { return arrival->complete(); };
  while (!std::all_of(arrivals_.begin(), arrivals_.end(), complete)) {
    bool moved = false;
    for (const auto& arrival : arrivals_) moved = arrival->advance(meanwhile) || moved;
    meanwhile();
    if (!moved) std::this_thread::sleep_for(kPause);
  }
  for (const auto& arrival : arrivals_) {
    if (!arrival->problem().empty()) throw Failure(arrival->problem());
  }
}

std::vector<std::uint64_t> write_part(PartSink& sink, const PlannedPart& part,
                                      const PartBytes& bytes, const Meanwhile& meanwhile) {
  try {
    std::vector<std::uint64_t> checksums;
    sink.write(std::as_bytes(std::span(part.layout.head)), meanwhile);
    for (std::size_t i = 0; i < part.slices.size(); ++i) {
      Xxh3 hash;
      bytes(i, [&](std::span<const std::byte> piece) {
        meanwhile();
        hash.update(piece);
        sink.write(piece, meanwhile);
      });
      checksums.push_back(hash.digest());
    }
    sink.finish(meanwhile);
    return checksums;
  } catch (...) {
    sink.give_up();
    throw;
  }
}

}  // namespace convoy::train
