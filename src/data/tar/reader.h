// The members of a tar file, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/readers/byte_source.h"
#include "data/tar/format.h"

namespace convoy::data {

struct TarMember {
  enum class Kind : std::uint8_t { file, folder, link, other };
  std::string name;          // as stored, with "./" or whatever stands in front
  std::uint64_t offset = 0;  // of its bytes, counted from the start of the tar
  std::uint64_t size = 0;
  Kind kind = Kind::other;
};

// Reads ustar, pax and GNU tar. As a stream it is the bytes of the current member, so that a tar in
// a tar can be read by a reader of a reader. Throws UsageError naming the tar when it is none, is
// truncated (also when only the end mark is missing), or has a member that is not stored in one
// piece. One thread at a time.
class TarReader final : public ByteStream {
 public:
  // `source` must outlive this. `name` stands in errors.
  TarReader(ByteStream& source, std::string name);

  // Goes to the next member, over what is left of this one. False at the end mark, once all that
  // follows it has been read: bytes other than zero there, as where several tars were put one after
  // another, are a UsageError, since nobody would miss what they hold.
  bool next(TarMember& member);

  // These read the current member: its bytes, and how many of them are left.
  std::size_t read(std::span<std::byte> to) override;
  std::uint64_t skip(std::uint64_t count) override;
  std::uint64_t left() const { return left_; }

  // `tap` is shown all bytes of the tar in their order, each before read() or next() returns; what
  // is passed over as well. Call it before next().
  void tap(std::function<void(std::span<const std::byte>)> tap) { tap_ = std::move(tap); }

 private:
  // What headers of other types have said about the member behind them.
  struct Extensions {
    PaxFields pax;
    std::string long_name;
  };

  [[noreturn]] void fail(const std::string& what) const;
  bool next_block(std::span<std::byte, kTarBlock> block);
  std::vector<std::byte> extension(const TarHeader& header);
  bool extend(const TarHeader& header, Extensions& known);
  void describe(const TarHeader& header, const Extensions& known, TarMember& member);
  std::size_t take(std::span<std::byte> to);
  void pass(std::uint64_t count);
  void finish();

  ByteStream& source_;
  std::string name_;
  std::uint64_t position_ = 0;  // in the tar
  std::uint64_t left_ = 0;      // bytes of the current member
  std::uint64_t padding_ = 0;   // behind it
  bool ended_ = false;
  std::function<void(std::span<const std::byte>)> tap_;
};

}  // namespace convoy::data
