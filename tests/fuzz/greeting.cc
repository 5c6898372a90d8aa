// What both sides of a connection say first: hello and welcome; the first byte says which. What is
// read is written as it was.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/transport/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::server::transport;  // NOLINT
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const Message message = Message::copy_of(bytes);
  try {
    if (data[0] % 2 == 0) {
      const Hello hello = Hello::decode(message);
      difference({"job", "model"}, hello);
      // Of another version nothing else is read.
      if (hello.version == kProtocolVersion && hello.encode().gather() != message.gather())
        __builtin_trap();
    } else if (Welcome::decode(message).encode().gather() != message.gather()) {
      __builtin_trap();
    }
  } catch (const convoy::Failure&) {
  }
  return 0;
}
