// What a coordinator keeps under which key (docs/server-coordinator.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/server/client.h"
#include "convoy/server/job.h"
#include "server/service/coordinator_calls.h"
#include "server/wire/writer.h"

namespace convoy::server::coordinator {

inline constexpr const char* kPlanKey = "plan";                // JobRecord
inline constexpr const char* kDescriptionKey = "description";  // JobDescription
inline constexpr const char* kStateKey = "state";              // StateRecord
inline constexpr const char* kServersKey = "servers";
inline constexpr const char* kCutsKey = "cuts";
inline constexpr const char* kReportedKey = "reported";  // ReplicaReport
inline constexpr const char* kLedgerKey = "ledger";
inline constexpr const char* kBatchStartKey = "batch";
inline constexpr const char* kBatchAnswersKey = "batch answers";
inline constexpr const char* kPortionsKey = "portions";  // GroupLedger; and of each block:
std::string portions_key(std::uint32_t block);
// And client/<id>, replica/<id of the first of the group>, configuration/<shard>.
std::string client_key(std::uint64_t client);
std::string group_key(std::uint64_t group);

struct JobRecord {
  std::string id;
  JobPlan plan;
};
struct StateRecord {
  bool initialized = false;
  std::string ended;
  bool began = false;  // samples were handed out
  bool warm_over = false;
  std::uint64_t warm_used = 0;  // microseconds
  std::uint64_t next_client = 1;
};
struct ClientEntry {
  std::string name;
  ClientRole role = ClientRole::replica;
  std::uint64_t group = 0;
  std::uint32_t member = 0;
  bool departed = false;    // it left in order, and waits for others of its group
  std::uint64_t nonce = 0;  // see calls::ClientHello
};
struct GroupEntry {
  std::uint32_t members = 1;
  bool leaving = false;
  Bytes portions;  // the ledger's; empty: it isn't whole yet
};
struct CutEntry {
  std::uint64_t client = 0;
  enum class Phase : std::uint8_t { making = 0, made = 1, dropping = 2 } phase = Phase::making;
};

// All begin with u16 version. decode...() throw UsageError.
Bytes encode(const JobRecord& record);
Bytes encode(const JobDescription& description);
Bytes encode(const StateRecord& record);
Bytes encode(const std::map<std::uint64_t, calls::ServerHello>& servers);
Bytes encode(const std::map<std::uint64_t, CutEntry>& cuts);
Bytes encode(const ReplicaReport& report);
Bytes encode(const ClientEntry& entry);
Bytes encode(const GroupEntry& entry);
JobRecord decode_job(std::span<const std::byte> bytes);
JobDescription decode_description(std::span<const std::byte> bytes);
StateRecord decode_state(std::span<const std::byte> bytes);
std::map<std::uint64_t, calls::ServerHello> decode_servers(std::span<const std::byte> bytes);
std::map<std::uint64_t, CutEntry> decode_cuts(std::span<const std::byte> bytes);
ReplicaReport decode_reported(std::span<const std::byte> bytes);
ClientEntry decode_client(std::span<const std::byte> bytes);
GroupEntry decode_group(std::span<const std::byte> bytes);

}  // namespace convoy::server::coordinator
