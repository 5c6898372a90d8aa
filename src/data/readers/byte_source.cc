#include "data/readers/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr int kGzipWindow = 15 + 16;  // largest window; gzip's header instead of zlib's
constexpr std::size_t kMostInflation = 1032;
constexpr std::size_t kHeld =
    16;  // zlib may have taken a few bytes more than it has turned into output

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

uInt clamped(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

struct ByteSource::Inflater {
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw Failure("gzip: no memory to inflate");
  }
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
  bool done = false;
};

ByteSource::ByteSource(std::span<const std::byte> bytes, std::string name)
    : rest_(bytes), name_(std::move(name)) {
  if (is_gzip(bytes)) inflater_ = std::make_unique<Inflater>();
}
ByteSource::~ByteSource() = default;

std::size_t ByteSource::most_left() const {
  return inflater_ ? (rest_.size() + kHeld) * kMostInflation : rest_.size();
}

std::size_t ByteSource::read(std::span<std::byte> to) {
  if (!inflater_) {
    const std::size_t count = std::min(to.size(), rest_.size());
    if (count > 0) std::memcpy(to.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  z_stream& z = inflater_->stream;
  std::size_t filled = 0;
  while (filled < to.size() && !inflater_->done) {
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
      if (is_gzip(rest_)) {
        inflateReset(&z);
      } else if (!rest_.empty()) {
        throw UsageError(name_ + ": " + std::to_string(rest_.size()) +
                         " bytes follow the end of the compressed data");
      } else {
        inflater_->done = true;
      }
    } else if (status == Z_BUF_ERROR || (status == Z_OK && rest_.empty() && z.avail_out > 0)) {
      throw UsageError(name_ + ": truncated: the compressed data have no end");
    } else if (status != Z_OK) {
      throw UsageError(name_ + ": damaged: gzip says " +
                       (z.msg != nullptr ? std::string(z.msg) : std::to_string(status)));
    }
  }
  return filled;
}

}  // namespace convoy::data
