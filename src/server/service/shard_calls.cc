#include "server/service/shard_calls.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::server::calls {
namespace {

using transport::Message;

constexpr std::size_t kRequestBytes = 2 + 4;  // version, shard

// A message's first bytes in one piece, as far as there are as many.
Bytes first_of(const Message& message, std::size_t count) {
  Bytes bytes(std::min(count, message.size()));
  message.copy_to(bytes);
  return bytes;
}

}  // namespace

Writer begin_request(std::uint32_t shard) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u32(shard);
  return writer;
}

std::uint32_t begin_request(Reader& reader) {
  reader.version(kServiceVersion);
  return reader.u32();
}

Message message_of(Writer& writer) { return Message::of(writer.take()); }

Message encode(const Answered& answer) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u8(static_cast<std::uint8_t>(answer.outcome));
  writer.u64(answer.primary);
  writer.text(std::string_view(answer.reason).substr(0, kMaxReason));
  Message message = message_of(writer);
  message.append(answer.content);
  return message;
}

Answered decode_answered(const Message& message) {
  const Bytes begin = first_of(message, 2 + 1 + 8 + 4 + kMaxReason);
  Reader reader(begin, "answer of a shard");
  reader.version(kServiceVersion);
  Answered answer;
  answer.outcome = static_cast<Outcome>(reader.u8());
  if (answer.outcome > Outcome::busy) reader.refuse("no outcome has this number");
  answer.primary = reader.u64();
  answer.reason = reader.text(kMaxReason);
  answer.content = message.behind(begin.size() - reader.left());
  return answer;
}

std::uint32_t shard_of(const Message& request) {
  const Bytes begin = first_of(request, kRequestBytes);
  Reader reader(begin, "request to a shard");
  return begin_request(reader);
}

Message command_request(std::uint32_t shard, const Message& command) {
  Writer writer = begin_request(shard);
  Message message = message_of(writer);
  message.append(command);
  return message;
}

Message decode_command(const Message& request) {
  shard_of(request);  // its version
  return request.behind(kRequestBytes);
}

Message report_request(std::uint32_t shard) {
  Writer writer = begin_request(shard);
  return message_of(writer);
}

Message encode(const FetchRequest& request) {
  Writer writer = begin_request(request.shard);
  writer.u64(request.cut);
  writer.u8(static_cast<std::uint8_t>(request.encoding));
  writer.u32(static_cast<std::uint32_t>(request.ranges.size()));
  for (const FetchRange& range : request.ranges) {
    writer.u32(range.slice);
    writer.u32(range.array);
    writer.u64(range.begin);
    writer.u64(range.size);
  }
  writer.u32(static_cast<std::uint32_t>(request.unless.size()));
  for (const std::uint64_t version : request.unless) writer.u64(version);
  return message_of(writer);
}

FetchRequest decode_fetch(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "fetch from a shard");
  FetchRequest request;
  request.shard = begin_request(reader);
  request.cut = reader.u64();
  request.encoding = static_cast<Encoding>(reader.u8());
  if (!known(request.encoding) || request.encoding == Encoding::fill) {
    reader.refuse("values are sent as f32, bf16 or f16");
  }
  request.ranges.resize(reader.count(4 + 4 + 8 + 8));
  std::uint64_t left = kMaxFetch;
  for (FetchRange& range : request.ranges) {
    range.slice = reader.u32();
    range.array = reader.u32();
    range.begin = reader.u64();
    range.size = reader.u64();
    if (range.size > left) reader.refuse("more elements than one fetch can have");
    left -= range.size;
  }
  request.unless.resize(reader.count(8));
  for (std::uint64_t& version : request.unless) version = reader.u64();
  if (!request.unless.empty() && request.unless.size() != request.ranges.size()) {
    reader.refuse(std::to_string(request.unless.size()) + " versions for " +
                  std::to_string(request.ranges.size()) + " ranges");
  }
  reader.end();
  return request;
}

Message encode(const Fetched& fetched) {
  Writer writer;
  writer.u64(fetched.index);
  writer.u32(static_cast<std::uint32_t>(fetched.versions.size()));
  for (std::size_t i = 0; i < fetched.versions.size(); ++i) {
    writer.u64(fetched.versions[i]);
    writer.boolean(fetched.sent[i]);
  }
  Message message = message_of(writer);
  message.append(fetched.values);
  return message;
}

Fetched decode_fetched(const Message& content) {
  constexpr std::size_t kBegin = 8 + 4;
  constexpr std::size_t kEach = 8 + 1;
  const Bytes begin = first_of(content, kBegin);
  Reader reader(begin, "values from a shard");
  Fetched fetched;
  fetched.index = reader.u64();
  const std::uint64_t ranges = reader.u32();
  const std::uint64_t head_size = kBegin + ranges * kEach;
  const Bytes head = first_of(content, head_size);
  Reader rest(head, "values from a shard");
  rest.raw(kBegin);
  fetched.versions.reserve(rest.left() / kEach);
  for (std::uint64_t i = 0; i < ranges; ++i) {
    fetched.versions.push_back(rest.u64());
    fetched.sent.push_back(rest.boolean());
  }
  fetched.values = content.behind(head_size);
  return fetched;
}

Message encode(const CutRequest& request) {
  Writer writer = begin_request(request.shard);
  writer.u64(request.cut);
  writer.u64(request.milliseconds);
  write(writer, request.until);
  return message_of(writer);
}

CutRequest decode_cut(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "cut of a shard");
  CutRequest request;
  request.shard = begin_request(reader);
  request.cut = reader.u64();
  request.milliseconds = reader.u64();
  request.until = read_last_pushes(reader);
  reader.end();
  return request;
}

Message encode_pushes(const LastPushes& pushes) {
  Writer writer;
  write(writer, pushes);
  return message_of(writer);
}

LastPushes decode_pushes(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "last pushes of a cut");
  LastPushes pushes = read_last_pushes(reader);
  reader.end();
  return pushes;
}

Message encode(const ShardReport& report) {
  Writer writer;
  writer.u64(report.server);
  writer.u8(report.role);
  for (const std::uint64_t number :
       {report.epoch, report.primary, report.backup, report.applied, report.backup_lag,
        report.log_bytes, report.memory_bytes, report.round}) {
    writer.u64(number);
  }
  writer.u32(static_cast<std::uint32_t>(report.versions.size()));
  for (const std::uint64_t version : report.versions) writer.u64(version);
  writer.u32(static_cast<std::uint32_t>(report.clients.size()));
  for (const ClientStatus& client : report.clients) {
    writer.u64(client.id);
    write(writer, client.client);
  }
  write(writer, report.staleness);
  write(writer, report.ledger);
  writer.u64(report.fetched_bytes);
  writer.u64(report.pushed_bytes);
  writer.u32(static_cast<std::uint32_t>(report.cuts.size()));
  for (const std::uint64_t cut : report.cuts) writer.u64(cut);
  writer.boolean(report.vectors.has_value());
  if (report.vectors) {
    for (const std::uint64_t number : {report.vectors->vectors, report.vectors->vector_bytes,
                                       report.vectors->group_bytes, report.vectors->portions_added})
      writer.u64(number);
  }
  return message_of(writer);
}

ShardReport decode_report(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "report of a shard");
  ShardReport report;
  report.server = reader.u64();
  report.role = reader.u8();
  for (std::uint64_t* number :
       {&report.epoch, &report.primary, &report.backup, &report.applied, &report.backup_lag,
        &report.log_bytes, &report.memory_bytes, &report.round}) {
    *number = reader.u64();
  }
  report.versions.resize(reader.count(8));
  for (std::uint64_t& version : report.versions) version = reader.u64();
  const std::uint32_t clients = reader.count(8 + kLeastRecord);
  for (std::uint32_t i = 0; i < clients; ++i) {
    const std::uint64_t id = reader.u64();
    report.clients.push_back({id, read_client_record(reader)});
  }
  report.staleness = read_staleness(reader);
  report.ledger = read_ledger(reader);
  report.fetched_bytes = reader.u64();
  report.pushed_bytes = reader.u64();
  report.cuts.resize(reader.count(8));
  for (std::uint64_t& cut : report.cuts) cut = reader.u64();
  if (reader.boolean()) {
    VectorReport& vectors = report.vectors.emplace();
    for (std::uint64_t* number :
         {&vectors.vectors, &vectors.vector_bytes, &vectors.group_bytes, &vectors.portions_added})
      *number = reader.u64();
  }
  reader.end();
  return report;
}

}  // namespace convoy::server::calls
