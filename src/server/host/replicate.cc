#include "server/host/replicate.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/service/job.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::host {
namespace {

using replication::Append;
using replication::Entry;

// What is cheaper to copy than to refer to.
constexpr std::size_t kCopied = std::size_t{16} << 10;

// --- writing ---

class Request {
 public:
  Writer& writer() { return writer_; }
  void refer_to(const replication::Command& command) {
    flush();
    message_.append({*command, command.owner()});
  }
  transport::Message take() {
    flush();
    return std::move(message_);
  }

 private:
  void flush() {
    if (writer_.size() > 0) message_.append(transport::Message::of(writer_.take()));
    writer_ = Writer();
  }

  Writer writer_;
  transport::Message message_;
};

void write(Request& request, const replication::Message& message) {
  const auto* append = std::get_if<Append>(&message.body);
  if (append == nullptr || append->entries.empty()) {
    return request.writer().bytes(replication::encode(message));
  }
  // The entries and their number end the message.
  replication::Message without = message;
  std::get<Append>(without.body).entries.clear();
  const Bytes head = replication::encode(without);
  std::uint64_t bytes = head.size();
  for (const Entry& entry : append->entries) bytes += 8 + 8 + entry.command->size();
  request.writer().u64(bytes);
  request.writer().raw(std::span(head).first(head.size() - 4));
  request.writer().u32(static_cast<std::uint32_t>(append->entries.size()));
  for (const Entry& entry : append->entries) {
    request.writer().u64(entry.epoch);
    if (entry.command->size() <= kCopied) {
      request.writer().bytes(*entry.command);
    } else {
      request.writer().u64(entry.command->size());
      request.refer_to(entry.command);
    }
  }
}

// --- reading ---

// A place in a message that is in parts.
class Place {
 public:
  Place(const transport::Message& message, std::size_t begin, std::size_t end)
      : message_(message), at_(begin), end_(end) {}

  std::size_t left() const { return end_ - at_; }
  Bytes take(std::uint64_t count) {
    if (count > left()) throw UsageError("messages of replication: they end too early");
    Bytes bytes;
    bytes.reserve(count);
    message_.for_each(at_, count, [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    at_ += count;
    return bytes;
  }
  // Most of a message stays where it is.
  replication::Command command(std::uint64_t count) {
    const auto& parts = message_.parts();
    if (count > left() || count <= message_.size() / 2 || parts.size() != 1 ||
        parts.front().owner == nullptr) {
      return std::make_shared<const Bytes>(take(count));
    }
    at_ += count;
    return {parts.front().bytes.subspan(at_ - count, count), parts.front().owner};
  }
  std::uint64_t number() {
    const Bytes bytes = take(8);
    return Reader(bytes, "messages of replication").u64();
  }
  Place part(std::uint64_t count) {
    if (count > left()) throw UsageError("messages of replication: they end too early");
    const Place place(message_, at_, at_ + count);
    at_ += count;
    return place;
  }

 private:
  const transport::Message& message_;
  std::size_t at_, end_;
};

// Of an Append, up to the number of entries: replication/messages.h.
constexpr std::size_t kAppendHead = 2 + 1 + 4 + 16 + 16 + (4 + 8 + 16 + 16) + 8 + 16 + 8;

replication::Message read(Place place) {
  Place begin = place;
  constexpr std::size_t kKind = 2;
  const bool large = place.left() > kAppendHead + 4 + kCopied;
  if (!large ||
      begin.take(kKind + 1)[kKind] != static_cast<std::byte>(replication::Body(Append{}).index())) {
    return replication::decode(place.take(place.left()));
  }
  Bytes head = place.take(kAppendHead);
  head.resize(kAppendHead + 4);  // no entries
  replication::Message message = replication::decode(head);
  auto& append = std::get<Append>(message.body);
  const Bytes number = place.take(4);
  const std::uint32_t count = Reader(number, "messages of replication").u32();
  if (count > place.left() / 16 || append.before.index > UINT64_MAX - count) {
    throw UsageError("messages of replication: so many commands can't be there");
  }
  std::uint64_t epoch = append.before.epoch;
  for (std::uint32_t i = 0; i < count; ++i) {
    Entry entry;
    entry.index = append.before.index + 1 + i;
    entry.epoch = place.number();
    if (entry.epoch < epoch || entry.epoch > append.configuration.epoch) {
      throw UsageError("messages of replication: epochs out of order");
    }
    epoch = entry.epoch;
    entry.command = place.command(place.number());
    append.entries.push_back(std::move(entry));
  }
  if (place.left() != 0) throw UsageError("messages of replication: bytes follow the last command");
  return message;
}

}  // namespace

transport::Message replicate_request(const std::vector<replication::Message>& messages) {
  Request request;
  request.writer().u16(kServiceVersion);
  for (const replication::Message& message : messages) write(request, message);
  return request.take();
}

std::vector<replication::Message> decode_replicate(const transport::Message& request) {
  Place place(request, 0, request.size());
  const Bytes version = place.take(2);
  Reader(version, "messages of replication").version(kServiceVersion);
  std::vector<replication::Message> messages;
  while (place.left() > 0) messages.push_back(read(place.part(place.number())));
  return messages;
}

}  // namespace convoy::server::host
