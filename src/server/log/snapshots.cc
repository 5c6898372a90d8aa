#include "server/log/snapshots.h"

#include <algorithm>
#include <charconv>

#include "convoy/base/checksum.h"
#include "server/wire/reader.h"

namespace convoy::server {
namespace {

constexpr std::uint64_t kSnapshotMagic = 0x31504e5359564e43;  // "CNVYSNP1"
constexpr std::uint32_t kSnapshotVersion = 1;
constexpr std::size_t kHeader = 64;
constexpr std::size_t kPieceHeader = 16;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes of the state in each but the last
constexpr std::string_view kSnapshotPrefix = "snapshot-";
constexpr std::string_view kPartialSnapshot = "partial-snapshot";
constexpr std::string_view kReceived = "partial-received";
constexpr std::size_t kSnapshotDigits = 20;

std::string padded(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kSnapshotDigits - digits.size(), '0') + digits;
}

std::string name_of(const SnapshotId& id) {
  return std::string(kSnapshotPrefix) + padded(id.index) + "-" + padded(id.epoch);
}

std::optional<SnapshotId> id_of(const std::string& name) {
  if (!name.starts_with(kSnapshotPrefix) ||
      name.size() != kSnapshotPrefix.size() + 2 * kSnapshotDigits + 1)
    return {};
  SnapshotId id;
  const char* begin = name.data() + kSnapshotPrefix.size();
  std::from_chars(begin, begin + kSnapshotDigits, id.index);
  std::from_chars(begin + kSnapshotDigits + 1, begin + 2 * kSnapshotDigits + 1, id.epoch);
  if (name_of(id) != name) return {};
  return id;
}

Bytes header_of(const SnapshotId& id) {
  Writer writer;
  writer.u64(kSnapshotMagic);
  writer.u32(kSnapshotVersion);
  writer.u32(kHeader);
  writer.u64(id.index);
  writer.u64(id.epoch);
  writer.room(24);
  writer.u64(xxh3(writer.view()));
  return writer.take();
}

// Its place goes in, so that pieces can't change places, with those of other snapshots either.
std::uint64_t checksum_of(std::span<const std::byte> piece, std::uint64_t number,
                          const SnapshotId& id) {
  Writer place;
  place.u64(id.index);
  place.u64(id.epoch);
  place.u64(number);
  place.u64(piece.size());
  Xxh3 sum;
  sum.update(place.view());
  sum.update(piece);
  return sum.digest();
}

class FileSink final : public SnapshotSink {
 public:
  FileSink(DiskFile& file, const SnapshotId& id) : file_(file), id_(id) {
    file_.append(header_of(id));
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto now = bytes.first(std::min(bytes.size(), kPiece - piece_.size()));
      piece_.insert(piece_.end(), now.begin(), now.end());
      bytes = bytes.subspan(now.size());
      if (piece_.size() == kPiece) flush();
    }
  }

  void end() {
    if (!piece_.empty()) flush();
    flush();  // one without bytes is the last
  }

 private:
  void flush() {
    Writer header;
    header.u64(piece_.size());
    header.u64(checksum_of(piece_, number_++, id_));
    file_.append(header.view(), piece_);
    piece_.clear();
  }

  DiskFile& file_;
  SnapshotId id_;
  Bytes piece_;
  std::uint64_t number_ = 0;
};

class FileSource final : public SnapshotSource {
 public:
  FileSource(const DiskFile& file, const SnapshotId& id, std::string path)
      : file_(file), id_(id), path_(std::move(path)) {
    if (file_.size() < kHeader) damaged("it has no whole header");
    Bytes header(kHeader);
    file_.read(0, header);
    if (header != header_of(id)) damaged("its header is not that of this version and index");
  }

  void read(std::span<std::byte> to) override {
    while (!to.empty()) {
      if (at_ == piece_.size()) next();
      if (piece_.empty()) damaged("the state in it is too short");
      const std::size_t count = std::min(to.size(), piece_.size() - at_);
      std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(at_), count, to.begin());
      to = to.subspan(count);
      at_ += count;
    }
  }

  // Everything that wasn't asked for.
  void read_rest() {
    while (!ended_) next();
    if (offset_ != file_.size()) damaged("bytes follow its end");
  }

 private:
  void next() {
    at_ = 0;
    piece_.clear();
    if (ended_) return;
    if (file_.size() - offset_ < kPieceHeader) damaged("it was cut short");
    std::byte bytes[kPieceHeader];
    file_.read(offset_, bytes);
    Reader header(bytes, "piece of a snapshot");
    const std::uint64_t size = header.u64();
    const std::uint64_t checksum = header.u64();
    if (size > kPiece || size > file_.size() - offset_ - kPieceHeader) damaged("it was cut short");
    piece_.resize(size);
    file_.read(offset_ + kPieceHeader, piece_);
    if (checksum_of(piece_, number_, id_) != checksum) {
      damaged("the checksum of piece " + std::to_string(number_) + " (byte " +
              std::to_string(offset_) + ") is another");
    }
    offset_ += kPieceHeader + size;
    ++number_;
    ended_ = size == 0;
  }

  [[noreturn]] void damaged(const std::string& why) const {
    throw Failure(path_ + " is damaged: " + why);
  }

  const DiskFile& file_;
  SnapshotId id_;
  std::string path_;
  Bytes piece_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = kHeader;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

void read_file(const DiskFile& file, const SnapshotId& id, const std::string& path,
               const std::function<void(SnapshotSource&)>& load) {
  FileSource source(file, id, path);
  load(source);
  source.read_rest();
}

void remove_if_there(Disk& disk, std::string_view name) {
  const std::vector<std::string> names = disk.list();
  if (std::find(names.begin(), names.end(), name) != names.end()) disk.remove(std::string(name));
}

}  // namespace

Snapshots::Snapshots(Disk& disk) : disk_(disk) {
  remove_if_there(disk, kPartialSnapshot);
  remove_if_there(disk, kReceived);
}

std::vector<SnapshotId> Snapshots::list() const {
  std::vector<SnapshotId> ids;
  for (const std::string& name : disk_.list()) {
    if (const auto id = id_of(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Snapshots::write(const SnapshotId& id, const std::function<void(SnapshotSink&)>& save) {
  const auto there = list();
  if (std::find(there.begin(), there.end(), id) != there.end()) return;
  const auto file = disk_.create(std::string(kPartialSnapshot));
  try {
    FileSink sink(*file, id);
    save(sink);
    sink.end();
    file->sync();
    disk_.rename(std::string(kPartialSnapshot), name_of(id));
    disk_.sync_names();
  } catch (...) {
    remove_if_there(disk_, kPartialSnapshot);
    throw;
  }
}

void Snapshots::read(const SnapshotId& id, const std::function<void(SnapshotSource&)>& load) const {
  const auto file = disk_.open(name_of(id));
  read_file(*file, id, disk_.path() + "/" + name_of(id), load);
}

std::optional<SnapshotId> Snapshots::load_newest(StateMachine& machine,
                                                 std::vector<std::string>& damaged) const {
  auto ids = list();
  std::reverse(ids.begin(), ids.end());
  for (const SnapshotId& id : ids) {
    try {
      read(id, [](SnapshotSource&) {});  // all of it before the machine changes
      read(id, [&](SnapshotSource& source) { machine.load(source); });
      return id;
    } catch (const Failure& error) {
      damaged.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

void Snapshots::keep_newest(std::size_t count) {
  const auto ids = list();
  for (std::size_t i = 0; i + count < ids.size(); ++i) disk_.remove(name_of(ids[i]));
  disk_.sync_names();
}

void Snapshots::remove(const SnapshotId& id) {
  disk_.remove(name_of(id));
  disk_.sync_names();
}

void Snapshots::remove_all() { keep_newest(0); }

std::uint64_t Snapshots::size(const SnapshotId& id) const {
  return disk_.open(name_of(id))->size();
}

Bytes Snapshots::piece(const SnapshotId& id, std::uint64_t offset, std::uint64_t limit) const {
  const auto file = disk_.open(name_of(id));
  Bytes bytes(std::min(limit, file->size() - std::min(offset, file->size())));
  file->read(std::min(offset, file->size()), bytes);
  return bytes;
}

SnapshotReceiver::SnapshotReceiver(Disk& disk, const SnapshotId& id) : disk_(disk), id_(id) {
  remove_if_there(disk_, kReceived);
  file_ = disk_.create(std::string(kReceived));
}

SnapshotReceiver::~SnapshotReceiver() {
  if (!file_) return;
  try {
    remove_if_there(disk_, kReceived);
  } catch (const Failure&) {
    // Snapshots removes it when the node starts again.
  }
}

std::uint64_t SnapshotReceiver::size() const { return file_->size(); }
void SnapshotReceiver::append(std::span<const std::byte> piece) { file_->append(piece); }

void SnapshotReceiver::commit() {
  read_file(*file_, id_, "the snapshot received into " + disk_.path(), [](SnapshotSource&) {});
  file_->sync();
  disk_.rename(std::string(kReceived), name_of(id_));
  disk_.sync_names();
  file_.reset();
}

}  // namespace convoy::server
