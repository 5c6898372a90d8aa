// What servers say to each other about their shards. The first byte: 0 one message; 1 a request
// with some of them, in two parts as it may come. Both readers agree, and what is read is written
// as it was.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/host/replicate.h"
#include "server/replication/messages.h"
#include "server/service/coordinator_calls.h"

namespace {

using namespace convoy::server;

void one(std::span<const std::byte> bytes) {
  const Bytes again = replication::encode(replication::decode(bytes));
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    if (data[0] % 2 == 0) {
      one(bytes);
    } else {
      transport::Message message = transport::Message::copy_of(bytes.first(bytes.size() / 2));
      message.append(transport::Message::copy_of(bytes.subspan(bytes.size() / 2)));
      const auto messages = host::decode_replicate(message);
      if (host::replicate_request(messages).gather() != message.gather()) __builtin_trap();
      for (const auto& each : messages) one(replication::encode(each));
    }
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
