#include "data/tar/reader.h"

#include <algorithm>
#include <array>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

// Of the names that pax and GNU headers hold.
constexpr std::uint64_t kMostExtension = std::uint64_t{1} << 20;
// What no file system holds.
constexpr std::uint64_t kMostMemberBytes = std::uint64_t{1} << 60;
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
constexpr std::size_t kRest = std::size_t{1} << 16;  // behind the end mark, at a time

}  // namespace

TarReader::TarReader(ByteStream& source, std::string name)
    : source_(source), name_(std::move(name)) {}

void TarReader::fail(const std::string& what) const {
  throw UsageError(name_ + ": " + what + " (at byte " + std::to_string(position_) + ")");
}

std::size_t TarReader::take(std::span<std::byte> to) {
  const std::size_t got = source_.read(to);
  position_ += got;
  if (tap_ && got > 0) tap_(to.first(got));
  return got;
}

// Over bytes that have to be there.
void TarReader::pass(std::uint64_t count) {
  if (!tap_) {
    const std::uint64_t done = source_.skip(count);
    position_ += done;
    if (done < count) fail("truncated: the bytes of a member end early");
    return;
  }
  std::vector<std::byte> unwanted(std::min(count, kPiece));
  while (count > 0) {
    const std::size_t got = take(std::span(unwanted).first(std::min(count, kPiece)));
    if (got == 0) fail("truncated: the bytes of a member end early");
    count -= got;
  }
}

bool TarReader::next_block(std::span<std::byte, kTarBlock> block) {
  const std::size_t got = take(block);
  if (got == 0) return false;
  if (got < block.size()) fail("truncated: it ends inside of a block");
  return true;
}

std::vector<std::byte> TarReader::extension(const TarHeader& header) {
  if (header.size > kMostExtension) {
    fail("a header of " + std::to_string(header.size) + " bytes about one member");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(padded(header.size)));
  if (take(bytes) < bytes.size()) fail("truncated: it ends inside of a header");
  bytes.resize(static_cast<std::size_t>(header.size));
  return bytes;
}

// Takes in a header that is about the member behind it. False for the member's own header.
bool TarReader::extend(const TarHeader& header, Extensions& known) {
  if (header.type == 'x') {
    const std::vector<std::byte> bytes = extension(header);
    try {
      known.pax = parse_pax(bytes);
    } catch (const UsageError& error) {
      fail(std::string("damaged: ") + error.what());
    }
  } else if (header.type == 'L') {
    const std::vector<std::byte> bytes = extension(header);
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    known.long_name.assign(reinterpret_cast<const char*>(bytes.data()),
                           static_cast<std::size_t>(end - bytes.begin()));
  } else if (header.type == 'K' || header.type == 'g') {  // a link's target; what holds for all
    extension(header);
  } else {
    return false;
  }
  return true;
}

void TarReader::describe(const TarHeader& header, const Extensions& known, TarMember& member) {
  member.name = !known.pax.path.empty()    ? known.pax.path
                : !known.long_name.empty() ? known.long_name
                                           : header.name;
  if (member.name.empty()) fail("a member without a name");
  if (header.type == 'S' || known.pax.sparse) {
    fail("'" + member.name + "' is stored as a sparse file, which can't be read");
  }
  // Old programs say "folder" by a slash at the end.
  const bool folder = header.type == '5' || member.name.ends_with('/');
  const bool file = header.type == '0' || header.type == '\0' || header.type == '7';
  const bool link = header.type == '1' || header.type == '2';
  member.kind = folder ? TarMember::Kind::folder
                : file ? TarMember::Kind::file
                : link ? TarMember::Kind::link
                       : TarMember::Kind::other;
  // Links, devices and folders have no bytes, whatever their size says.
  const bool bytes = !(header.type >= '1' && header.type <= '6');
  member.size = !bytes ? 0 : known.pax.has_size ? known.pax.size : header.size;
  if (member.size > kMostMemberBytes) {
    fail("'" + member.name + "' is said to have " + std::to_string(member.size) + " bytes");
  }
  member.offset = position_;
}

// Programs fill up the last record of a tar with zeros, of any number.
void TarReader::finish() {
  ended_ = true;
  std::vector<std::byte> rest(kRest);
  while (const std::size_t got = take(rest)) {
    const auto end = rest.begin() + static_cast<std::ptrdiff_t>(got);
    const auto found =
        std::find_if(rest.begin(), end, [](std::byte b) { return b != std::byte{0}; });
    if (found == end) continue;
    position_ -= static_cast<std::uint64_t>(end - found);
    fail(
        "behind its end mark there is more than zeros, which would be lost: perhaps several tars "
        "were put one after another. Take them one by one, or join them with tar -A");
  }
}

bool TarReader::next(TarMember& member) {
  if (ended_) return false;
  pass(left_ + padding_);
  left_ = padding_ = 0;
  Extensions known;
  while (true) {
    std::array<std::byte, kTarBlock> block;
    if (!next_block(block)) fail("truncated: the two blocks of zeros at the end are missing");
    if (is_zero_block(block)) {
      finish();
      return false;
    }
    TarHeader header;
    try {
      header = parse_tar_header(block);
    } catch (const UsageError& error) {
      fail((position_ == kTarBlock ? "not a tar file: " : "damaged: ") + std::string(error.what()));
    }
    if (extend(header, known)) continue;
    describe(header, known, member);
    left_ = member.size;
    padding_ = padded(member.size) - member.size;
    return true;
  }
}

std::size_t TarReader::read(std::span<std::byte> to) {
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), left_));
  const std::size_t got = take(to.first(want));
  left_ -= got;
  if (got < want) fail("truncated: the bytes of a member end early");
  return got;
}

std::uint64_t TarReader::skip(std::uint64_t count) {
  const std::uint64_t want = std::min(count, left_);
  pass(want);
  left_ -= want;
  return want;
}

}  // namespace convoy::data
