// What clients ask a shard and it answers: the first byte says which, the rest are the bytes, in
// two parts as they may come. What is read is written as it was.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/service/batch_calls.h"
#include "server/service/shard_calls.h"

namespace {

using namespace convoy::server;
using transport::Message;

void same(const Message& again, const Message& message) {
  if (again.gather() != message.gather()) __builtin_trap();
}

// A group's request in one piece.
Message whole(const calls::GroupRequest& group) {
  Message message;
  const auto pieces = calls::group_pieces(group);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    message.append(Message::copy_of(pieces[i]));
    if (i < group.slices.size()) message.append(Message::copy_of(group.slices[i].values.bytes));
  }
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  Message message = Message::copy_of(bytes.first(bytes.size() / 2));
  message.append(Message::copy_of(bytes.subspan(bytes.size() / 2)));
  try {
    switch (data[0] % 16) {
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
      case 7:
        return same(calls::encode(calls::decode_dots(message)), message), 0;
      case 8: {
        // Digits of a sum may be said in more bytes than they need.
        const auto sums = calls::decode_sums(message);
        if (calls::decode_sums(calls::encode_sums(sums)) != sums) __builtin_trap();
        return 0;
      }
      case 9:
        return same(calls::encode(calls::decode_vector(message)), message), 0;
      case 10:
        return same(calls::encode(calls::decode_vector_values(message)), message), 0;
      case 11: {
        const calls::GroupRequest group = calls::decode_group(bytes);
        return same(whole(group), message), 0;
      }
      case 12:
        return same(calls::encode(calls::decode_seal(message)), message), 0;
      case 13:
        same(calls::encode(calls::decode_sealed(message)), message);
        return 0;
      case 15:
        return same(calls::encode(calls::decode_batch_status(message)), message), 0;
      case 14: {
        const calls::CopyRequest copy = calls::decode_copy(bytes);
        return same(calls::copy_request(copy, whole(copy.group)), message), 0;
      }
    }
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
