#include "data/pack/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/packed/numbers.h"

namespace convoy::data {
namespace {

// A frame is the size of its payload, the payload, and the checksum of both.
constexpr std::size_t kSizeBytes = 4, kSealBytes = 8;
// An entry's before its labels and its text.
constexpr std::size_t kEntryBytes = 2 + 4 + 5 * 8;
constexpr std::size_t kAtLabels = 2, kLabelBytes = 4;

[[noreturn]] void fail(const std::string& path, int error) {
  throw Failure("cannot write " + path + ": " + std::generic_category().message(error));
}

std::vector<std::byte> payload_of(const JournalEntry& entry) {
  std::vector<std::byte> payload;
  put(payload, static_cast<std::uint8_t>(entry.bad));
  put(payload, static_cast<std::uint8_t>(entry.unchanged));
  put(payload, static_cast<std::uint32_t>(entry.labels.size()));
  for (const std::uint64_t number :
       {entry.offset, entry.length, entry.checksum, entry.gap_checksum, entry.end}) {
    put(payload, number);
  }
  for (const std::uint32_t label : entry.labels) put(payload, label);
  const auto text = std::as_bytes(std::span(entry.text));
  payload.insert(payload.end(), text.begin(), text.end());
  return payload;
}

// Nothing of a payload that is none.
std::optional<JournalEntry> entry_of(std::span<const std::byte> payload) {
  if (payload.size() < kEntryBytes) return {};
  const auto labels = get<std::uint32_t>(payload, kAtLabels);
  if (labels > (payload.size() - kEntryBytes) / kLabelBytes) return {};
  JournalEntry entry;
  entry.bad = payload[0] != std::byte{0};
  entry.unchanged = payload[1] != std::byte{0};
  std::size_t at = kAtLabels + 4;
  for (std::uint64_t* number :
       {&entry.offset, &entry.length, &entry.checksum, &entry.gap_checksum, &entry.end}) {
    *number = get<std::uint64_t>(payload, at);
    at += 8;
  }
  for (std::uint32_t i = 0; i < labels; ++i, at += kLabelBytes)
    entry.labels.push_back(get<std::uint32_t>(payload, at));
  entry.text.assign(reinterpret_cast<const char*>(payload.data()) + at, payload.size() - at);
  return entry;
}

// The next sound payload, which is taken off the front; empty at the end or at a torn frame.
std::span<const std::byte> take_frame(std::span<const std::byte>& rest) {
  if (rest.size() < kSizeBytes + kSealBytes) return {};
  const std::size_t size = get<std::uint32_t>(rest, 0);
  if (size > rest.size() - kSizeBytes - kSealBytes) return {};
  if (xxh3(rest.first(kSizeBytes + size)) != get<std::uint64_t>(rest, kSizeBytes + size)) return {};
  const auto payload = rest.subspan(kSizeBytes, size);
  rest = rest.subspan(kSizeBytes + size + kSealBytes);
  return payload;
}

}  // namespace

// Opens the file and locks it. The one who had the lock may have removed the file in between: then
// it is another one that the next process would lock.
int Journal::open_locked(const std::string& path) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) fail(path, errno);
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    struct stat mine {};
    struct stat there {};
    if (locked && ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
        mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) {
      return fd;
    }
    ::close(fd);
    if (!locked) throw UsageError("another convoy pack is writing the same file: it holds " + path);
  }
}

Journal::Journal(std::string path, const std::string& identity, bool overwrite)
    : path_(std::move(path)), fd_(open_locked(path_)) {
  try {
    read(identity, overwrite);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Journal::~Journal() { ::close(fd_); }

void Journal::read(const std::string& identity, bool overwrite) {
  const std::vector<std::byte> bytes = read_file(path_);
  std::span<const std::byte> rest(bytes);
  const std::span<const std::byte> first = take_frame(rest);
  const std::string found(reinterpret_cast<const char*>(first.data()), first.size());
  if (!first.empty() && found != identity && !overwrite) {
    throw UsageError(path_ +
                     " is left of packing other sources, or the same with other options; remove "
                     "it to start anew, or say --overwrite");
  }
  if (first.empty() || found != identity) {
    ends_ = {0};
    cut(0);
    const auto text = std::as_bytes(std::span(identity));
    append({text.begin(), text.end()});
    ends_ = {pending_.size()};
    flush();
    return;
  }
  ends_ = {bytes.size() - rest.size()};
  while (std::optional<JournalEntry> entry = entry_of(take_frame(rest))) {
    entries_.push_back(std::move(*entry));
    ends_.push_back(bytes.size() - rest.size());
  }
}

void Journal::cut(std::size_t count) {
  entries_.resize(count);
  ends_.resize(count + 1);
  const auto end = static_cast<off_t>(ends_.back());
  if (::ftruncate(fd_, end) != 0 || ::lseek(fd_, end, SEEK_SET) < 0) fail(path_, errno);
}

void Journal::append(const std::vector<std::byte>& payload) {
  std::vector<std::byte> frame;
  put(frame, static_cast<std::uint32_t>(payload.size()));
  frame.insert(frame.end(), payload.begin(), payload.end());
  put(frame, xxh3(frame));
  pending_.insert(pending_.end(), frame.begin(), frame.end());
}

void Journal::add(const JournalEntry& entry) { append(payload_of(entry)); }

void Journal::flush() {
  if (const int error = write_all(fd_, pending_)) fail(path_, error);
  pending_.clear();
}

void Journal::remove() { ::unlink(path_.c_str()); }

}  // namespace convoy::data
