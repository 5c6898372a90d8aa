// Tars, also tars in them: everything is read to the end, or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "convoy/base/error.h"
#include "data/tar/cursor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  try {
    ByteSource source(std::as_bytes(std::span(data, size)), "the.tar");
    TarCursor cursor(source, "the.tar", true);
    TarMember member;
    std::vector<std::byte> piece(100);
    while (cursor.next(member)) {
      std::uint64_t total = 0;
      while (const std::size_t got = cursor.bytes().read(piece)) total += got;
      // What was said to be there was there.
      if (total != member.size) std::abort();
      if (!source.compressed() && member.offset + member.size > size) std::abort();
    }
  } catch (const convoy::UsageError&) {
    // Refused, as it should be.
  }
  return 0;
}
