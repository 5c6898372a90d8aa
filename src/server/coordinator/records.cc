#include "server/coordinator/records.h"

#include <utility>

#include "server/wire/reader.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint16_t kRecordsVersion = 1;

Writer begin() {
  Writer writer;
  writer.u16(kRecordsVersion);
  return writer;
}

// Reads a record with `read` and nothing behind it.
template <typename Read>
auto whole(std::span<const std::byte> bytes, std::string_view what, Read read) {
  Reader reader(bytes, what);
  reader.version(kRecordsVersion);
  auto value = read(reader);
  reader.end();
  return value;
}

}  // namespace

std::string client_key(std::uint64_t client) { return "client/" + std::to_string(client); }
std::string portions_key(std::uint32_t block) {
  return std::string(kPortionsKey) + "/" + std::to_string(block);
}
std::string group_key(std::uint64_t group) { return "replica/" + std::to_string(group); }

Bytes encode(const JobRecord& record) {
  Writer writer = begin();
  writer.text(record.id);
  write(writer, record.plan);
  return writer.take();
}

JobRecord decode_job(std::span<const std::byte> bytes) {
  return whole(bytes, "plan in the coordinator's store", [](Reader& from) {
    JobRecord record;
    record.id = from.text(32);
    record.plan = read_job_plan(from);
    return record;
  });
}

Bytes encode(const JobDescription& description) {
  Writer writer = begin();
  write(writer, description);
  return writer.take();
}

JobDescription decode_description(std::span<const std::byte> bytes) {
  return whole(bytes, "description in the coordinator's store",
               [](Reader& from) { return read_job_description(from); });
}

Bytes encode(const StateRecord& record) {
  Writer writer = begin();
  writer.boolean(record.initialized);
  writer.text(record.ended);
  writer.boolean(record.began);
  writer.boolean(record.warm_over);
  writer.u64(record.warm_used);
  writer.u64(record.next_client);
  return writer.take();
}

StateRecord decode_state(std::span<const std::byte> bytes) {
  return whole(bytes, "state in the coordinator's store", [](Reader& from) {
    StateRecord record;
    record.initialized = from.boolean();
    record.ended = from.text();
    record.began = from.boolean();
    record.warm_over = from.boolean();
    record.warm_used = from.u64();
    record.next_client = from.u64();
    return record;
  });
}

Bytes encode(const std::map<std::uint64_t, calls::ServerHello>& servers) {
  Writer writer = begin();
  writer.u32(static_cast<std::uint32_t>(servers.size()));
  for (const auto& [number, server] : servers) {
    writer.u64(number);
    writer.u64(server.incarnation);
    writer.text(server.address);
  }
  return writer.take();
}

std::map<std::uint64_t, calls::ServerHello> decode_servers(std::span<const std::byte> bytes) {
  return whole(bytes, "servers in the coordinator's store", [](Reader& from) {
    std::map<std::uint64_t, calls::ServerHello> servers;
    for (std::uint32_t count = from.count(8 + 8 + 4); count > 0; --count) {
      calls::ServerHello server;
      server.server = from.u64();
      server.incarnation = from.u64();
      server.address = from.text();
      servers[server.server] = std::move(server);
    }
    return servers;
  });
}

Bytes encode(const std::map<std::uint64_t, CutEntry>& cuts) {
  Writer writer = begin();
  writer.u32(static_cast<std::uint32_t>(cuts.size()));
  for (const auto& [id, cut] : cuts) {
    writer.u64(id);
    writer.u64(cut.client);
    writer.u8(static_cast<std::uint8_t>(cut.phase));
  }
  return writer.take();
}

std::map<std::uint64_t, CutEntry> decode_cuts(std::span<const std::byte> bytes) {
  return whole(bytes, "cuts in the coordinator's store", [](Reader& from) {
    std::map<std::uint64_t, CutEntry> cuts;
    for (std::uint32_t count = from.count(17); count > 0; --count) {
      const std::uint64_t id = from.u64();
      CutEntry& cut = cuts[id];
      cut.client = from.u64();
      const std::uint8_t phase = from.u8();
      if (phase > 2) from.refuse("there is no phase " + std::to_string(phase));
      cut.phase = static_cast<CutEntry::Phase>(phase);
    }
    return cuts;
  });
}

Bytes encode(const ReplicaReport& report) {
  Writer writer = begin();
  calls::write(writer, report);
  return writer.take();
}

ReplicaReport decode_reported(std::span<const std::byte> bytes) {
  return whole(bytes, "reports in the coordinator's store",
               [](Reader& from) { return calls::read_report(from); });
}

Bytes encode(const ClientEntry& entry) {
  Writer writer = begin();
  writer.text(entry.name);
  writer.u8(static_cast<std::uint8_t>(entry.role));
  writer.u64(entry.group);
  writer.u32(entry.member);
  writer.boolean(entry.departed);
  writer.u64(entry.nonce);
  return writer.take();
}

ClientEntry decode_client(std::span<const std::byte> bytes) {
  return whole(bytes, "client in the coordinator's store", [](Reader& from) {
    ClientEntry entry;
    entry.name = from.text();
    const std::uint8_t role = from.u8();
    if (role > 2) from.refuse("there is no role " + std::to_string(role));
    entry.role = static_cast<ClientRole>(role);
    entry.group = from.u64();
    entry.member = from.u32();
    entry.departed = from.boolean();
    entry.nonce = from.u64();
    return entry;
  });
}

Bytes encode(const GroupEntry& entry) {
  Writer writer = begin();
  writer.u32(entry.members);
  writer.boolean(entry.leaving);
  writer.bytes(entry.portions);
  return writer.take();
}

GroupEntry decode_group(std::span<const std::byte> bytes) {
  return whole(bytes, "replica in the coordinator's store", [](Reader& from) {
    GroupEntry entry;
    entry.members = from.u32();
    entry.leaving = from.boolean();
    const auto portions = from.bytes();
    entry.portions.assign(portions.begin(), portions.end());
    return entry;
  });
}

}  // namespace convoy::server::coordinator
