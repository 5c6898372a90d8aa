// What snapshots and reports of a shard have in common, in bytes.
#include "server/state/shard_data.h"

namespace convoy::server {

void write(Writer& writer, const LastPushes& pushes) {
  writer.u32(static_cast<std::uint32_t>(pushes.size()));
  for (const LastPush& push : pushes) {
    writer.u64(push.client);
    writer.u64(push.sequence);
    writer.u64(push.progress);
  }
}

LastPushes read_last_pushes(Reader& reader) {
  LastPushes pushes(reader.count(3 * 8));
  for (LastPush& push : pushes) {
    push.client = reader.u64();
    push.sequence = reader.u64();
    push.progress = reader.u64();
  }
  return pushes;
}

void write(Writer& writer, const ClientRecord& client) {
  writer.text(client.name);
  writer.boolean(client.member);
  writer.u64(client.sequence);
  writer.bytes(encode(client.reply));
  for (const std::uint64_t number :
       {client.progress, client.applied_progress, client.pushes, client.samples,
        client.refused_not_finite, client.refused_shape, client.refused_stale}) {
    writer.u64(number);
  }
  writer.u32(static_cast<std::uint32_t>(client.statistics.size()));
  for (const std::uint32_t slice : client.statistics) writer.u32(slice);
}

ClientRecord read_client_record(Reader& reader) {
  ClientRecord client;
  client.name = reader.text(kMaxClientName);
  client.member = reader.boolean();
  client.sequence = reader.u64();
  client.reply = decode_reply(reader.bytes());
  for (std::uint64_t* number :
       {&client.progress, &client.applied_progress, &client.pushes, &client.samples,
        &client.refused_not_finite, &client.refused_shape, &client.refused_stale}) {
    *number = reader.u64();
  }
  const std::uint32_t statistics = reader.count(4);
  for (std::uint32_t i = 0; i < statistics; ++i) client.statistics.insert(reader.u32());
  if (client.statistics.size() != statistics) reader.refuse("a client's slice is there twice");
  return client;
}

void write(Writer& writer, const Ledger& ledger) {
  for (const std::uint64_t sum : {ledger.count, ledger.sum, ledger.squares}) writer.u64(sum);
}

Ledger read_ledger(Reader& reader) {
  Ledger ledger;
  for (std::uint64_t* sum : {&ledger.count, &ledger.sum, &ledger.squares}) *sum = reader.u64();
  return ledger;
}

void write(Writer& writer, const StalenessHistogram& staleness) {
  for (const std::uint64_t pushes : staleness.pushes) writer.u64(pushes);
}

StalenessHistogram read_staleness(Reader& reader) {
  StalenessHistogram staleness;
  for (std::uint64_t& pushes : staleness.pushes) pushes = reader.u64();
  return staleness;
}

}  // namespace convoy::server
