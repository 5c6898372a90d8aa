// What everybody asks the coordinator and it answers: the first byte says which, the rest are the
// bytes, in two parts as they may come. What is read is written as it was.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/service/coordinator_calls.h"
#include "server/service/portion_calls.h"

namespace {

using namespace convoy::server;
using transport::Message;

void same(const Message& again, const Message& message) {
  if (again.gather() != message.gather()) __builtin_trap();
}

template <typename Decode>
void both(const Message& message, Decode decode) {
  same(calls::encode(decode(message)), message);
}

void read(std::uint8_t which, const Message& message) {
  switch (which) {
    case 0:
      return both(message, calls::decode_job_state);
    case 1:
      return both(message, calls::decode_description);
    case 2:
      return both(message, calls::decode_server_hello);
    case 3:
      return both(message, calls::decode_client_hello);
    case 4:
      return both(message, calls::decode_client_welcome);
    case 5:
      return both(message, calls::decode_beat);
    case 6:
      return both(message, calls::decode_beat_answer);
    case 7:
      return both(message, calls::decode_lease_request);
    case 8:
      return both(message, calls::decode_lease_answer);
    case 9:
      return both(message, calls::decode_client_request);
    case 10:
      return both(message, calls::decode_drop_cut);
    case 11:
      return both(message, calls::decode_end);
    case 12:
      return both(message, calls::decode_progress);
    case 13:
      return both(message, calls::decode_made_cut);
    case 14:
      return calls::decode_nothing(message);
    case 15:
      return same(calls::encode_text(calls::decode_text(message)), message);
    case 16:
      return both(message, calls::decode_replication);
    case 17:
      return both(message, calls::decode_portion_request);
    case 18:
      return both(message, calls::decode_portion_answer);
    case 19:
      return both(message, calls::decode_watch_request);
    case 20:
      return both(message, calls::decode_watch_answer);
    case 21:
      return both(message, calls::decode_batch_from);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  Message message = Message::copy_of(bytes.first(bytes.size() / 2));
  message.append(Message::copy_of(bytes.subspan(bytes.size() / 2)));
  try {
    read(data[0] % 22, message);
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
