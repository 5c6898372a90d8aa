#include "server/service/batch_calls.h"

#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/wire/exact_sums.h"

namespace convoy::server::calls {
namespace {

using transport::Message;

constexpr std::size_t kLeastSum = 4;  // bytes

Writer begin_group(const GroupRequest& request) {
  Writer writer = begin_request(request.shard);
  write(writer, request.id);
  writer.u32(request.group.first);
  writer.u8(request.group.log2_size);
  return writer;
}

GroupRequest read_group(Reader& reader) {
  GroupRequest request;
  request.shard = begin_request(reader);
  request.id = read_evaluation_id(reader);
  request.group.first = reader.u32();
  request.group.log2_size = reader.u8();
  if (request.group.log2_size > 32) reader.refuse("no group has so many portions");
  request.slices = read_batch_slices(reader);
  reader.end();
  return request;
}

}  // namespace

Message encode(const DotsRequest& request) {
  Writer writer = begin_request(request.shard);
  writer.u64(request.after);
  writer.u32(static_cast<std::uint32_t>(request.pairs.size()));
  for (const auto& [a, b] : request.pairs) {
    write(writer, a);
    write(writer, b);
  }
  return message_of(writer);
}

DotsRequest decode_dots(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "scalar products of a shard");
  DotsRequest request;
  request.shard = begin_request(reader);
  request.after = reader.u64();
  const std::uint32_t pairs = reader.count(2 * kVectorNameBytes);
  if (pairs > kMostDots) reader.refuse(std::to_string(pairs) + " scalar products at once");
  request.pairs.resize(pairs);
  for (auto& [a, b] : request.pairs) {
    a = read_vector_name(reader);
    b = read_vector_name(reader);
  }
  reader.end();
  return request;
}

Message encode_sums(const std::vector<ExactSum>& sums) {
  Writer writer;
  writer.u32(static_cast<std::uint32_t>(sums.size()));
  for (const ExactSum& sum : sums) write(writer, sum);
  return message_of(writer);
}

std::vector<ExactSum> decode_sums(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "scalar products from a shard");
  std::vector<ExactSum> sums(reader.count(kLeastSum));
  for (ExactSum& sum : sums) sum = read_exact_sum(reader);
  reader.end();
  return sums;
}

Message encode(const VectorRequest& request) {
  Writer writer = begin_request(request.shard);
  writer.u64(request.after);
  write(writer, request.name);
  writer.u32(static_cast<std::uint32_t>(request.ranges.size()));
  for (const VectorRange& range : request.ranges) {
    writer.u32(range.slice);
    writer.u64(range.begin);
    writer.u64(range.size);
  }
  return message_of(writer);
}

VectorRequest decode_vector(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "vector of a shard");
  VectorRequest request;
  request.shard = begin_request(reader);
  request.after = reader.u64();
  request.name = read_vector_name(reader);
  request.ranges.resize(reader.count(4 + 8 + 8));
  std::uint64_t left = kMaxFetch;
  for (VectorRange& range : request.ranges) {
    range.slice = reader.u32();
    range.begin = reader.u64();
    range.size = reader.u64();
    if (range.size > left) reader.refuse("more elements than one fetch can have");
    left -= range.size;
  }
  reader.end();
  return request;
}

Message encode(const VectorValues& values) {
  Writer writer;
  writer.u8(static_cast<std::uint8_t>(values.element));
  Message message = message_of(writer);
  message.append(values.values);
  return message;
}

VectorValues decode_vector_values(const Message& content) {
  Bytes begin(std::min<std::size_t>(1, content.size()));
  content.copy_to(begin);
  Reader reader(begin, "values of a vector");
  VectorValues values;
  values.element = read_element(reader);
  values.values = content.behind(1);
  return values;
}

std::vector<Bytes> group_pieces(const GroupRequest& request) {
  return slice_pieces(begin_group(request), request.slices);
}

GroupRequest decode_group(std::span<const std::byte> message) {
  Reader reader(message, "group of portions");
  return read_group(reader);
}

Message encode(GroupAnswer answer) {
  Writer writer;
  writer.u8(static_cast<std::uint8_t>(answer));
  return message_of(writer);
}

GroupAnswer decode_group_answer(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "answer to a group of portions");
  const std::uint8_t answer = reader.u8();
  if (answer > static_cast<std::uint8_t>(GroupAnswer::overlaps)) {
    reader.refuse("no answer has this number");
  }
  reader.end();
  return static_cast<GroupAnswer>(answer);
}

Message encode(const SealRequest& request) {
  Writer writer = begin_request(request.shard);
  write(writer, request.id);
  writer.f64(request.scale);
  write(writer, request.also);
  return message_of(writer);
}

SealRequest decode_seal(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "seal of an evaluation");
  SealRequest request;
  request.shard = begin_request(reader);
  request.id = read_evaluation_id(reader);
  request.scale = reader.f64();
  request.also = read_terms(reader);
  reader.end();
  return request;
}

Message encode(const EvaluationRequest& request) {
  Writer writer = begin_request(request.shard);
  write(writer, request.id);
  return message_of(writer);
}

EvaluationRequest decode_evaluation(const Message& message) {
  const Bytes bytes = message.gather();
  Reader reader(bytes, "portions of an evaluation");
  EvaluationRequest request;
  request.shard = begin_request(reader);
  request.id = read_evaluation_id(reader);
  reader.end();
  return request;
}

Message encode(const Sealed& sealed) {
  Writer writer;
  writer.boolean(sealed.sealed);
  writer.u32(static_cast<std::uint32_t>(sealed.missing.size()));
  for (const PortionRange& range : sealed.missing) {
    writer.u32(range.begin);
    writer.u32(range.end);
  }
  return message_of(writer);
}

Sealed decode_sealed(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "portions that a shard lacks");
  Sealed sealed;
  sealed.sealed = reader.boolean();
  sealed.missing.resize(reader.count(8));
  for (PortionRange& range : sealed.missing) {
    range.begin = reader.u32();
    range.end = reader.u32();
    if (range.begin >= range.end) reader.refuse("a range that is empty");
  }
  reader.end();
  return sealed;
}

Message encode(const BatchStatus& status) {
  Writer writer;
  writer.boolean(status.element.has_value());
  if (status.element) writer.u8(static_cast<std::uint8_t>(*status.element));
  writer.u64(status.ordinal);
  writer.boolean(status.open.has_value());
  if (status.open) {
    write(writer, status.open->id);
    writer.u32(status.open->portions);
    writer.u64(status.open->index);
    write(writer, *status.newest);
    writer.boolean(status.sealed);
  }
  writer.u64(status.bytes);
  writer.u32(static_cast<std::uint32_t>(status.vectors.size()));
  for (const optim::VectorName& name : status.vectors) write(writer, name);
  return message_of(writer);
}

BatchStatus decode_batch_status(const Message& content) {
  const Bytes bytes = content.gather();
  Reader reader(bytes, "vectors of a shard");
  BatchStatus status;
  if (reader.boolean()) status.element = read_element(reader);
  status.ordinal = reader.u64();
  if (reader.boolean()) {
    status.open.emplace();
    status.open->id = read_evaluation_id(reader);
    status.open->portions = reader.u32();
    status.open->index = reader.u64();
    status.newest = read_evaluation_id(reader);
    status.sealed = reader.boolean();
  }
  status.bytes = reader.u64();
  status.vectors.resize(reader.count(kVectorNameBytes));
  for (optim::VectorName& name : status.vectors) name = read_vector_name(reader);
  reader.end();
  return status;
}

Message copy_request(const CopyRequest& head, const Message& group) {
  Writer writer;
  writer.u16(kServiceVersion);
  writer.u64(head.epoch);
  write(writer, head.evaluation.id);
  writer.u32(head.evaluation.portions);
  writer.u64(head.evaluation.index);
  writer.u8(static_cast<std::uint8_t>(head.element));
  Message message = message_of(writer);
  message.append(group);
  return message;
}

CopyRequest decode_copy(std::span<const std::byte> message) {
  Reader reader(message, "copy of a group of portions");
  reader.version(kServiceVersion);
  CopyRequest request;
  request.epoch = reader.u64();
  request.evaluation.id = read_evaluation_id(reader);
  request.evaluation.portions = reader.u32();
  request.evaluation.index = reader.u64();
  request.element = read_element(reader);
  if (request.evaluation.portions == 0) reader.refuse("an evaluation without portions");
  request.group = read_group(reader);
  return request;
}

}  // namespace convoy::server::calls
