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

}  // namespace convoy::server::calls
