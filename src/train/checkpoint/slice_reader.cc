#include "train/checkpoint/slice_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"

namespace convoy::train {

Slice StoredTensor::slice(const StoredSlice& stored) const {
  return {name, shape, stored.begin, stored.size};
}

std::uint64_t StoredTensor::bytes(const StoredSlice& stored) const {
  return static_cast<std::uint64_t>(slice(stored).elements()) * size_of_type(type);
}

void for_each_piece(const Slice& slice, std::size_t element, std::size_t limit,
                    const std::function<void(const Slice& piece)>& use) {
  if (slice.elements() == 0) return;
  // Pieces take dimensions from `cut` + 1 on in full, and some of dimension `cut`.
  std::size_t cut = slice.size.size();
  std::size_t inner = element;
  while (cut > 0) {
    --cut;
    const auto extent = static_cast<std::size_t>(slice.size[cut]);
    if (inner * extent > limit) break;
    inner *= extent;
    if (cut == 0) return use(slice);
  }
  if (slice.size.empty()) return use(slice);
  const auto rows =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(limit / inner));  // of dimension `cut`
  Slice piece = slice;
  for (std::size_t d = 0; d < cut; ++d) piece.size[d] = 1;
  const std::int64_t end = slice.begin[cut] + slice.size[cut];
  while (true) {
    for (std::int64_t at = slice.begin[cut]; at < end; at += rows) {
      piece.begin[cut] = at;
      piece.size[cut] = std::min(rows, end - at);
      use(piece);
    }
    std::size_t d = cut;
    for (; d > 0; --d) {
      if (++piece.begin[d - 1] < slice.begin[d - 1] + slice.size[d - 1]) break;
      piece.begin[d - 1] = slice.begin[d - 1];
    }
    if (d == 0) return;
  }
}

void SliceReader::read(const StoredTensor& tensor, const StoredSlice& stored, const Use& use) {
  const Slice slice = tensor.slice(stored);
  const std::string path = checkpoint_ + "/" + stored.file;
  const auto bad = [&](const std::string& why) {
    return UsageError(path + " " + why + " (" + slice.text() + ")");
  };
  Descriptor& file = files_[stored.file];
  if (!file.open()) {
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.open() && errno == ENOENT) throw bad("is missing");
    if (!file.open()) throw bad(std::string("cannot be read: ") + std::strerror(errno));
  }
  const std::size_t element = size_of_type(tensor.type);
  std::uint64_t offset = stored.offset;
  Xxh3 hash;
  for_each_piece(slice, element, kPieceBytes, [&](const Slice& piece) {
    const std::size_t bytes = static_cast<std::size_t>(piece.elements()) * element;
    if (buffer_.size() < bytes) buffer_.resize(bytes);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(file.get(), buffer_.data() + done, bytes - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw bad(std::string("cannot be read: ") + std::strerror(errno));
      if (got == 0) throw bad("is damaged: it ends too early");
      done += static_cast<std::size_t>(got);
    }
    const auto read = std::span<const std::byte>(buffer_).first(bytes);
    if (stored.xxh3) hash.update(read);
    use(piece, read);
    offset += bytes;
  });
  if (stored.xxh3 && hash.digest() != *stored.xxh3) {
    throw UsageError(path + " is damaged: the checksum of " + slice.text() + " is " +
                     to_hex(hash.digest()) + ", the manifest says " + to_hex(*stored.xxh3));
  }
}

}  // namespace convoy::train
