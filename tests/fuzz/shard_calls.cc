// What clients ask a shard and it answers: the first byte says which, the rest are the bytes, in
// two parts as they may come. What is read is written as it was.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/service/shard_calls.h"

namespace {

using namespace convoy::server;
using transport::Message;

void same(const Message& again, const Message& message) {
  if (again.gather() != message.gather()) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  Message message = Message::copy_of(bytes.first(bytes.size() / 2));
  message.append(Message::copy_of(bytes.subspan(bytes.size() / 2)));
  try {
    switch (data[0] % 7) {
      case 0:
        return same(calls::encode(calls::decode_answered(message)), message), 0;
      case 1:
        return same(calls::encode(calls::decode_fetch(message)), message), 0;
      case 2:
        return same(calls::encode(calls::decode_fetched(message)), message), 0;
      case 3:
        return same(calls::encode(calls::decode_cut(message)), message), 0;
      case 4:
        return same(calls::encode_pushes(calls::decode_pushes(message)), message), 0;
      case 5:
        return same(calls::encode(calls::decode_report(message)), message), 0;
      case 6:
        return same(
                   calls::command_request(calls::shard_of(message), calls::decode_command(message)),
                   message),
               0;
    }
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
