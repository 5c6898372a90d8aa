#include "server/service/portion_calls.h"

#include <algorithm>

#include "server/service/job.h"
#include "server/state/batch_commands.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::calls {
namespace {

constexpr std::size_t kMaxWhy = 4096;  // bytes
constexpr std::uint8_t kMostLog2 = 30;

void write_portion_group(Writer& to, const PortionGroup& group) {
  to.u32(group.first);
  to.u8(group.log2_size);
}

PortionGroup read_portion_group(Reader& from) {
  PortionGroup group;
  group.first = from.u32();
  group.log2_size = from.u8();
  if (group.log2_size > kMostLog2 || group.first % (std::uint32_t{1} << group.log2_size) != 0 ||
      group.end() > UINT32_MAX) {
    from.refuse("no group of portions begins at " + std::to_string(group.first) +
                " and has 2 to the power of " + std::to_string(group.log2_size));
  }
  return group;
}

void write_portion_groups(Writer& to, const std::vector<PortionGroup>& groups) {
  to.u8(static_cast<std::uint8_t>(groups.size()));
  for (const PortionGroup& group : groups) write_portion_group(to, group);
}

std::vector<PortionGroup> read_portion_groups(Reader& from) {
  const std::uint8_t count = from.u8();
  if (count > kMostHeld) from.refuse(std::to_string(count) + " groups at once");
  std::vector<PortionGroup> groups;
  for (std::uint8_t i = 0; i < count; ++i) groups.push_back(read_portion_group(from));
  return groups;
}

constexpr std::size_t kMaxReplicaName = 255;
constexpr std::size_t kMostReplicas = std::size_t{1} << 16;
constexpr std::size_t kLeastRecordBytes = 8 + 12 + 5 + 8 + 1 + 1 + 16;
constexpr std::size_t kLeastReplicaBytes = 8 + 4 + 1 + 32 + 8;

void write_portion_counts(Writer& to, const PortionCounts& counts) {
  for (const std::uint64_t count : {counts.done, counts.again, counts.copies, counts.unused})
    to.u64(count);
}

PortionCounts read_portion_counts(Reader& from) {
  PortionCounts counts;
  for (std::uint64_t* count : {&counts.done, &counts.again, &counts.copies, &counts.unused})
    *count = from.u64();
  return counts;
}

void write_group_record(Writer& to, const GroupRecord& record) {
  to.u64(record.number);
  write(to, record.evaluation);
  write_portion_group(to, record.group);
  to.u64(record.replica);
  to.boolean(record.copy);
  to.u8(static_cast<std::uint8_t>(record.end));
  to.f64(record.began_s);
  to.f64(record.ended_s);
}

GroupRecord read_group_record(Reader& from) {
  GroupRecord record;
  record.number = from.u64();
  record.evaluation = read_evaluation_id(from);
  record.group = read_portion_group(from);
  record.replica = from.u64();
  record.copy = from.boolean();
  const std::uint8_t end = from.u8();
  if (end > static_cast<std::uint8_t>(GroupRecord::End::lost))
    from.refuse("the unknown end " + std::to_string(end));
  record.end = static_cast<GroupRecord::End>(end);
  record.began_s = from.f64();
  record.ended_s = from.f64();
  return record;
}

}  // namespace

transport::Message encode(const PortionRequest& request) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u64(request.client);
  write(writer, request.evaluation);
  write_portion_groups(writer, request.held);
  writer.u8(static_cast<std::uint8_t>(request.finished.size()));
  for (const FinishedGroup& each : request.finished) {
    write_portion_group(writer, each.group);
    writer.u32(static_cast<std::uint32_t>(each.losses.size()));
    for (const double loss : each.losses) writer.f64(loss);
  }
  writer.boolean(request.at_once);
  return transport::Message::of(writer.take());
}

PortionRequest decode_portion_request(const transport::Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "a request for portions");
  reader.version(kServiceVersion);
  PortionRequest request;
  request.client = reader.u64();
  request.evaluation = read_evaluation_id(reader);
  request.held = read_portion_groups(reader);
  const std::uint8_t count = reader.u8();
  if (count > kMostHeld) reader.refuse(std::to_string(count) + " finished groups at once");
  for (std::uint8_t i = 0; i < count; ++i) {
    FinishedGroup each;
    each.group = read_portion_group(reader);
    each.losses.resize(reader.count(sizeof(double)));
    for (double& loss : each.losses) loss = reader.f64();
    request.finished.push_back(std::move(each));
  }
  request.at_once = reader.boolean();
  reader.end();
  return request;
}

transport::Message encode(const PortionAnswer& answer) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u8(static_cast<std::uint8_t>(answer.kind));
  write(writer, answer.evaluation);
  writer.u32(answer.portions);
  if (answer.kind == PortionAnswer::Kind::group) {
    write_portion_group(writer, answer.group);
    writer.boolean(answer.copy);
  }
  write_portion_groups(writer, answer.unused);
  writer.text(std::string_view(answer.why).substr(0, kMaxWhy));
  return transport::Message::of(writer.take());
}

PortionAnswer decode_portion_answer(const transport::Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "an answer about portions");
  reader.version(kServiceVersion);
  PortionAnswer answer;
  const std::uint8_t kind = reader.u8();
  if (kind > static_cast<std::uint8_t>(PortionAnswer::Kind::unknown_client))
    reader.refuse("the unknown kind " + std::to_string(kind));
  answer.kind = static_cast<PortionAnswer::Kind>(kind);
  answer.evaluation = read_evaluation_id(reader);
  answer.portions = reader.u32();
  if (answer.kind == PortionAnswer::Kind::group) {
    answer.group = read_portion_group(reader);
    answer.copy = reader.boolean();
  }
  answer.unused = read_portion_groups(reader);
  answer.why = reader.text(kMaxWhy);
  reader.end();
  return answer;
}

transport::Message encode(const WatchRequest& request) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u64(request.client);
  writer.u64(request.after);
  writer.u8(static_cast<std::uint8_t>(request.hold));
  return transport::Message::of(writer.take());
}

WatchRequest decode_watch_request(const transport::Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "a question how far a batch optimization is");
  reader.version(kServiceVersion);
  WatchRequest request;
  request.client = reader.u64();
  request.after = reader.u64();
  const std::uint8_t hold = reader.u8();
  if (hold > static_cast<std::uint8_t>(WatchRequest::Hold::let_go))
    reader.refuse("the unknown wish " + std::to_string(hold));
  request.hold = static_cast<WatchRequest::Hold>(hold);
  reader.end();
  return request;
}

transport::Message encode(const WatchAnswer& answer) {
  const BatchProgress& progress = answer.progress;
  Writer writer;
  writer.u16(kServiceVersion);
  writer.text(std::string_view(progress.ended).substr(0, kMaxWhy));
  writer.text(std::string_view(progress.over).substr(0, kMaxWhy));
  writer.bytes(answer.start);
  writer.u8(static_cast<std::uint8_t>(progress.method));
  write(writer, progress.evaluation);
  writer.u32(progress.portions);
  write_portion_counts(writer, progress.now);
  write_portion_counts(writer, progress.iteration);
  write_portion_counts(writer, progress.all);
  writer.u64(progress.term);
  writer.f64(progress.time_s);
  writer.u64(progress.method_bytes);
  writer.u64(progress.portion_bytes);
  writer.u32(static_cast<std::uint32_t>(progress.replicas.size()));
  for (const BatchReplica& each : progress.replicas) {
    writer.u64(each.replica);
    writer.text(std::string_view(each.name).substr(0, kMaxReplicaName));
    writer.boolean(each.here);
    write_portion_counts(writer, each.portions);
    writer.f64(each.busy_s);
  }
  writer.u32(static_cast<std::uint32_t>(progress.groups.size()));
  for (const GroupRecord& each : progress.groups) write_group_record(writer, each);
  return transport::Message::of(writer.take());
}

WatchAnswer decode_watch_answer(const transport::Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "how far a batch optimization is");
  reader.version(kServiceVersion);
  WatchAnswer answer;
  BatchProgress& progress = answer.progress;
  progress.ended = reader.text(kMaxWhy);
  progress.over = reader.text(kMaxWhy);
  const auto start = reader.bytes();
  answer.start.assign(start.begin(), start.end());
  const std::uint8_t method = reader.u8();
  if (method > static_cast<std::uint8_t>(optim::BatchMethod::gradient_descent))
    reader.refuse("the unknown method " + std::to_string(method));
  progress.method = static_cast<optim::BatchMethod>(method);
  progress.evaluation = read_evaluation_id(reader);
  progress.portions = reader.u32();
  progress.now = read_portion_counts(reader);
  progress.iteration = read_portion_counts(reader);
  progress.all = read_portion_counts(reader);
  progress.term = reader.u64();
  progress.time_s = reader.f64();
  progress.method_bytes = reader.u64();
  progress.portion_bytes = reader.u64();
  const std::uint32_t replicas = reader.count(kLeastReplicaBytes);
  if (replicas > kMostReplicas) reader.refuse(std::to_string(replicas) + " replicas");
  for (std::uint32_t i = 0; i < replicas; ++i) {
    BatchReplica each;
    each.replica = reader.u64();
    each.name = reader.text(kMaxReplicaName);
    each.here = reader.boolean();
    each.portions = read_portion_counts(reader);
    each.busy_s = reader.f64();
    progress.replicas.push_back(std::move(each));
  }
  const std::uint32_t groups = reader.count(kLeastRecordBytes);
  if (groups > kMostRecords) reader.refuse(std::to_string(groups) + " records at once");
  for (std::uint32_t i = 0; i < groups; ++i) progress.groups.push_back(read_group_record(reader));
  reader.end();
  return answer;
}

transport::Message encode(const BatchFrom& from) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u64(from.client);
  writer.bytes(from.start);
  return transport::Message::of(writer.take());
}

BatchFrom decode_batch_from(const transport::Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "where a batch optimization goes on from");
  reader.version(kServiceVersion);
  BatchFrom from;
  from.client = reader.u64();
  const auto start = reader.bytes();
  from.start.assign(start.begin(), start.end());
  reader.end();
  return from;
}

}  // namespace convoy::server::calls
