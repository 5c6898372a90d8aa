#include "server/replication/messages.h"

#include <memory>
#include <string>
#include <utility>

namespace convoy::server::replication {
namespace {

// Each part is a pair of functions: write() and read(), in the order of docs/server-replication.md.

void write(Writer& to, const Member& member) {
  to.u64(member.node);
  to.u64(member.incarnation);
}
Member read_member(Reader& from) {
  const std::uint64_t node = from.u64();
  return {node, from.u64()};
}

}  // namespace

void write(Writer& to, const Configuration& configuration) {
  to.u32(configuration.shard);
  to.u64(configuration.epoch);
  write(to, configuration.primary);
  write(to, configuration.backup);
}
Configuration read_configuration(Reader& from) {
  Configuration configuration;
  configuration.shard = from.u32();
  configuration.epoch = from.u64();
  configuration.primary = read_member(from);
  configuration.backup = read_member(from);
  if (!configuration.primary && (configuration.backup || configuration.epoch != 0)) {
    from.refuse("a configuration without a primary");
  }
  if (configuration.backup.node != 0 && configuration.backup.node == configuration.primary.node) {
    from.refuse("a node that is its own backup");
  }
  return configuration;
}

namespace {

void write(Writer& to, const Position& position) {
  to.u64(position.epoch);
  to.u64(position.index);
}
Position read_position(Reader& from) {
  const Epoch epoch = from.u64();
  return {epoch, from.u64()};
}

template <typename Kind>
Kind read_kind(Reader& from, Kind last) {
  const std::uint8_t kind = from.u8();
  if (kind > static_cast<std::uint8_t>(last)) {
    from.refuse("there is no kind " + std::to_string(kind));
  }
  return static_cast<Kind>(kind);
}

Bytes copied(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

void write(Writer& to, const JoinRequest& body) {
  to.u16(body.version);
  to.u64(body.session);
  to.u64(body.epoch);
  to.u64(body.applied);
  to.u64(body.last);
  to.u32(static_cast<std::uint32_t>(body.runs.size()));
  for (const EpochRun& run : body.runs) {
    to.u64(run.begin);
    to.u64(run.epoch);
  }
}
void read(Reader& from, JoinRequest& body) {
  body.version = from.u16();
  body.session = from.u64();
  body.epoch = from.u64();
  body.applied = from.u64();
  body.last = from.u64();
  const std::uint32_t runs = from.count(16);
  for (std::uint32_t i = 0; i < runs; ++i) {
    const Index begin = from.u64();
    body.runs.push_back({begin, from.u64()});
    if (begin > body.last || (i > 0 && begin <= body.runs[i - 1].begin)) {
      from.refuse("runs of epochs out of order");
    }
  }
  if (body.runs.empty()) from.refuse("a log without a beginning");
}

void write(Writer& to, const JoinAnswer& body) {
  write(to, body.configuration);
  to.u64(body.session);
  to.u8(static_cast<std::uint8_t>(body.kind));
  to.u64(body.keep);
  to.text(body.reason);
}
void read(Reader& from, JoinAnswer& body) {
  body.configuration = read_configuration(from);
  body.session = from.u64();
  body.kind = read_kind(from, JoinAnswer::Kind::refused);
  body.keep = from.u64();
  body.reason = from.text(4096);
}

void write(Writer& to, const SnapshotPiece& body) {
  write(to, body.configuration);
  to.u64(body.session);
  write(to, body.at);
  to.u64(body.total);
  to.u64(body.offset);
  to.bytes(body.bytes);
}
void read(Reader& from, SnapshotPiece& body) {
  body.configuration = read_configuration(from);
  body.session = from.u64();
  body.at = read_position(from);
  body.total = from.u64();
  body.offset = from.u64();
  body.bytes = copied(from.bytes());
  if (body.offset > body.total || body.bytes.size() > body.total - body.offset) {
    from.refuse("a piece behind the end of its snapshot");
  }
}

void write(Writer& to, const PieceAck& body) {
  to.u64(body.epoch);
  to.u64(body.session);
  to.u64(body.received);
  to.boolean(body.installed);
}
void read(Reader& from, PieceAck& body) {
  body.epoch = from.u64();
  body.session = from.u64();
  body.received = from.u64();
  body.installed = from.boolean();
}

// The commands follow each other, so that the first index says the others.
void write(Writer& to, const Append& body) {
  write(to, body.configuration);
  to.u64(body.session);
  write(to, body.before);
  to.u64(body.committed);
  to.u32(static_cast<std::uint32_t>(body.entries.size()));
  for (const Entry& entry : body.entries) {
    to.u64(entry.epoch);
    to.bytes(*entry.command);
  }
}
void read(Reader& from, Append& body) {
  body.configuration = read_configuration(from);
  body.session = from.u64();
  body.before = read_position(from);
  body.committed = from.u64();
  const std::uint32_t entries = from.count(16);
  if (body.before.index > UINT64_MAX - entries) from.refuse("an index that is too large");
  Epoch epoch = body.before.epoch;
  for (std::uint32_t i = 0; i < entries; ++i) {
    const Epoch next = from.u64();
    if (next < epoch || next > body.configuration.epoch) from.refuse("epochs out of order");
    epoch = next;
    body.entries.push_back(
        {body.before.index + 1 + i, epoch, std::make_shared<const Bytes>(copied(from.bytes()))});
  }
}

void write(Writer& to, const AppendAck& body) {
  to.u64(body.epoch);
  to.u64(body.session);
  to.u64(body.written);
  to.u64(body.synced);
  to.u64(body.last);
  to.boolean(body.gap);
}
void read(Reader& from, AppendAck& body) {
  body.epoch = from.u64();
  body.session = from.u64();
  body.written = from.u64();
  body.synced = from.u64();
  body.last = from.u64();
  body.gap = from.boolean();
}

void write(Writer& to, const Refusal& body) {
  to.u8(static_cast<std::uint8_t>(body.kind));
  to.u64(body.epoch);
  to.u64(body.session);
}
void read(Reader& from, Refusal& body) {
  body.kind = read_kind(from, Refusal::Kind::unable);
  body.epoch = from.u64();
  body.session = from.u64();
}

void write(Writer& to, const Stamp& stamp) {
  to.u64(stamp.authority);
  to.u64(stamp.time);
}
Stamp read_stamp(Reader& from) {
  const std::uint64_t authority = from.u64();
  return {authority, from.u64()};
}

void write(Writer& to, const Report& body) {
  write(to, body.echo);
  to.u64(body.epoch);
  to.u8(static_cast<std::uint8_t>(body.role));
  to.boolean(body.able);
  to.boolean(body.whole);
  write(to, body.position);
  to.u64(body.applied);
  to.u64(body.last);
}
void read(Reader& from, Report& body) {
  body.echo = read_stamp(from);
  body.epoch = from.u64();
  body.role = read_kind(from, Role::primary);
  body.able = from.boolean();
  body.whole = from.boolean();
  body.position = read_position(from);
  body.applied = from.u64();
  body.last = from.u64();
}

void write(Writer& to, const Change& body) {
  write(to, body.echo);
  write(to, body.next);
}
void read(Reader& from, Change& body) {
  body.echo = read_stamp(from);
  body.next = read_configuration(from);
}

void write(Writer& to, const Newest& body) {
  write(to, body.stamp);
  write(to, body.configuration);
}
void read(Reader& from, Newest& body) {
  body.stamp = read_stamp(from);
  body.configuration = read_configuration(from);
}

// The body whose number in the variant is `kind`.
template <std::size_t kKind = 0>
Body read_body(Reader& from, std::uint8_t kind) {
  if constexpr (kKind == std::variant_size_v<Body>) {
    from.refuse("there is no message of kind " + std::to_string(kind));
  } else {
    if (kind != kKind) return read_body<kKind + 1>(from, kind);
    std::variant_alternative_t<kKind, Body> body;
    read(from, body);
    return body;
  }
}

}  // namespace

Bytes encode(const Message& message) {
  Writer to;
  to.u16(kReplicationVersion);
  to.u8(static_cast<std::uint8_t>(message.body.index()));
  to.u32(message.shard);
  write(to, message.from);
  write(to, message.to);
  std::visit([&](const auto& body) { write(to, body); }, message.body);
  return to.take();
}

Message decode(std::span<const std::byte> bytes) {
  Reader from(bytes, "message of replication");
  from.version(kReplicationVersion);
  const std::uint8_t kind = from.u8();
  Message message;
  message.shard = from.u32();
  message.from = read_member(from);
  message.to = read_member(from);
  message.body = read_body(from, kind);
  from.end();
  return message;
}

}  // namespace convoy::server::replication
