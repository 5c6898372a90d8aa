#include "data/readers/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr int kGzipWindow = 15 + 16;  // largest window; gzip's header instead of zlib's
constexpr std::size_t kMostDeflateGains = 1032;
constexpr std::size_t kHeld =
    16;  // zlib may have taken a few bytes more than it has turned into output
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::array<std::byte, 2> kGzipMagic = {std::byte{0x1f}, std::byte{0x8b}};

uInt clamped(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

std::uint64_t ByteStream::skip(std::uint64_t count) {
  std::vector<std::byte> unwanted(std::min<std::uint64_t>(count, kPiece));
  std::uint64_t done = 0;
  while (done < count) {
    const std::uint64_t want = std::min<std::uint64_t>(count - done, unwanted.size());
    const std::size_t got = read(std::span(unwanted).first(want));
    if (got == 0) break;
    done += got;
  }
  return done;
}

struct ByteSource::Inflater {
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw Failure("gzip: no memory to inflate");
  }
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
  bool done = false;
};

ByteSource::ByteSource(std::span<const std::byte> bytes, std::string name)
    : fetched_(bytes.size()), rest_(bytes), name_(std::move(name)) {
  start();
}

ByteSource::ByteSource(const InputFile& file) : file_(&file), name_(file.path()) { start(); }

ByteSource::~ByteSource() = default;

void ByteSource::start() {
  if (at_gzip()) inflater_ = std::make_unique<Inflater>();
}

// More stored bytes behind those in rest_. False at the end.
bool ByteSource::fetch() {
  if (file_ == nullptr) return false;
  const std::size_t held = rest_.size();
  if (piece_.empty()) piece_.resize(kPiece);
  if (held == piece_.size()) return true;
  if (held > 0) std::memmove(piece_.data(), rest_.data(), held);
  const std::size_t got = file_->read_some(fetched_, std::span(piece_).subspan(held));
  fetched_ += got;
  rest_ = std::span<const std::byte>(piece_).first(held + got);
  return got > 0;
}

bool ByteSource::at_gzip() {
  while (rest_.size() < kGzipMagic.size() && fetch()) {
  }
  return rest_.size() >= kGzipMagic.size() &&
         std::equal(kGzipMagic.begin(), kGzipMagic.end(), rest_.begin());
}

std::size_t ByteSource::stored_left() const {
  const bool more = file_ != nullptr && fetched_ < file_->size();
  return rest_.size() + (more ? static_cast<std::size_t>(file_->size() - fetched_) : 0);
}

std::size_t ByteSource::most_left() const {
  return inflater_ ? (stored_left() + kHeld) * kMostDeflateGains : stored_left();
}

std::uint64_t ByteSource::skip(std::uint64_t count) {
  if (inflater_ || file_ == nullptr || count <= rest_.size()) return ByteStream::skip(count);
  // A file need not be read to pass over a part of it.
  const std::uint64_t at = consumed();
  const std::uint64_t left = file_->size() > at ? file_->size() - at : 0;
  const std::uint64_t done = std::min(count, left);
  fetched_ = at + done;
  rest_ = {};
  return done;
}

std::size_t ByteSource::read(std::span<std::byte> to) {
  std::size_t filled = 0;
  while (!inflater_ && filled < to.size()) {
    if (rest_.empty() && !fetch()) return filled;
    const std::size_t count = std::min(to.size() - filled, rest_.size());
    std::memcpy(to.data() + filled, rest_.data(), count);
    rest_ = rest_.subspan(count);
    filled += count;
  }
  while (filled < to.size() && !inflater_->done) {
    z_stream& z = inflater_->stream;
    const bool ended = rest_.empty() && !fetch();
    const uInt input = clamped(rest_.size());
    const uInt room = clamped(to.size() - filled);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
    z.avail_in = input;
    z.next_out = reinterpret_cast<Bytef*>(to.data() + filled);
    z.avail_out = room;
    const int status = inflate(&z, Z_NO_FLUSH);
    rest_ = rest_.subspan(input - z.avail_in);
    filled += room - z.avail_out;
    if (status == Z_STREAM_END) {
      // A gzip file may consist of several, one after another.
      if (at_gzip()) {
        inflateReset(&z);
      } else if (!rest_.empty()) {
        throw UsageError(name_ + ": " + std::to_string(stored_left()) +
                         " bytes follow the end of the compressed data");
      } else {
        inflater_->done = true;
      }
    } else if (status == Z_BUF_ERROR || (status == Z_OK && ended && z.avail_out > 0)) {
      throw UsageError(name_ + ": truncated: the compressed data have no end");
    } else if (status != Z_OK) {
      throw UsageError(name_ + ": damaged: gzip says " +
                       (z.msg != nullptr ? std::string(z.msg) : std::to_string(status)));
    }
  }
  return filled;
}

}  // namespace convoy::data
