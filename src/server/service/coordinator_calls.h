// What everybody asks the coordinator: methods of the transport and their bytes
// (docs/server-coordinator.md). Every request and answer begins with u16 version (kServiceVersion);
// where nothing is said of a request's or an answer's bytes, that is all of it.
// What the coordinator refuses (a model with other vectors, a client it doesn't know) fails the
// call with a line for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/server/client.h"
#include "server/replication/messages.h"
#include "server/service/job.h"
#include "server/transport/message.h"

namespace convoy::server::calls {

// The coordinator's identity is the same for all jobs: whoever comes asks which job this is.
// Servers are called with the job's id.
inline constexpr std::string_view kCoordinator = "coordinator";
// That a coordinator takes, in bytes.
inline constexpr std::uint64_t kLargestRequest = std::uint64_t{64} << 20;

// JobState, to anybody.
inline constexpr std::string_view kJob = "job";
// The first process that has built the network says what it consists of: JobDescription. Said
// before: the same, or the call fails with the difference.
inline constexpr std::string_view kDescribe = "describe";
// All values are on the shards.
inline constexpr std::string_view kInitialized = "initialized";
// A server says where it is: ServerHello; answered with JobState. Said again after every start.
inline constexpr std::string_view kServer = "server";
// Messages of replication for the authority, all of one server; the answer has those for this
// server in the same form: bytes of each.
inline constexpr std::string_view kAuthority = "authority";
// A client begins: ClientHello; answered with ClientWelcome.
inline constexpr std::string_view kJoin = "join";
// A client lives, and what became of its work: Beat; answered with BeatAnswer.
inline constexpr std::string_view kBeat = "beat";
// A client wants samples: LeaseRequest; answered with LeaseAnswer. From the first one on a replica
// counts as ready: join is said before its shards know it.
inline constexpr std::string_view kLease = "lease";
// A client ends in order: u64 client.
inline constexpr std::string_view kLeave = "leave";
// A cut of all shards: u64 client. Answered with Cut (client.h), when there is one. Cuts of clients
// that left are dropped.
inline constexpr std::string_view kMakeCut = "cut";
// Nobody reads it any more: u64 client, u64 cut.
inline constexpr std::string_view kDropCut = "drop cut";
// The end of the job: u64 client, text why.
inline constexpr std::string_view kEnd = "end";
// How far the job is: answered with JobProgress (client.h).
inline constexpr std::string_view kProgress = "progress";
// Everything for people and programs: answered with a JSON text.
inline constexpr std::string_view kStatus = "status";

struct ServerAddress {
  std::uint64_t server = 0;  // from 1
  std::string address;       // empty: not known yet
};

struct JobState {
  std::string id;  // 32 hexadecimal digits, chosen when the job begins
  JobPlan plan;
  std::optional<JobDescription> description;
  bool initialized = false;
  std::string ended;  // why the job is over; empty while it isn't
  std::vector<ServerAddress> servers;
  std::vector<replication::Configuration> configurations;  // of the shards that were ever served
};

struct ServerHello {
  std::uint64_t server = 0;
  std::uint64_t incarnation = 0;
  std::string address;
};

struct ClientHello {
  std::string name;
  ClientRole role = ClientRole::replica;
  std::uint64_t group = 0;   // of a replica of several processes: the client id of the first
                             // one; 0: this is the first, or the only one
  std::uint32_t member = 0;  // which one of them
  std::uint32_t members = 1;
  std::optional<JobDescription> description;  // of a replica: what its network is
  // Chosen by chance for each time it joins, and the same when it asks again since the answer got
  // lost: that is the same client then. 0: nothing was chosen.
  std::uint64_t nonce = 0;
};
struct ClientWelcome {
  std::uint64_t client = 0;    // never used before
  std::uint64_t lease_ms = 0;  // a client that isn't heard for so long has left
};

struct Beat {
  std::uint64_t client = 0;
  // Of the report: 1, 2, ...; one that comes again since its answer got lost isn't added again.
  std::uint64_t number = 0;
  ReplicaReport report;
};
struct BeatAnswer {
  bool known = true;  // false: the client was taken for dead; it has to join again
  std::string ended;  // see JobState
};

struct LeaseRequest {
  std::uint64_t client = 0;
  // The largest number of a portion that this client has been given; 0: none yet. So that what was
  // leased with an answer that got lost is given to it again.
  std::uint64_t last = 0;
  std::vector<std::uint64_t> finished;  // portions of which all shards have every push
  // In rounds: that of the shards to which its next push belongs; UINT64_MAX where it doesn't know,
  // since it has no part of any shard.
  std::uint64_t round = UINT64_MAX;
};
struct LeaseAnswer {
  enum class Kind : std::uint8_t { portion = 0, wait = 1, finished = 2, unknown_client = 3 };
  Kind kind = Kind::wait;
  Portion portion;
  std::uint64_t wait_ms = 0;
  std::string why;  // of waiting
};

// Of kLeave and kMakeCut.
struct ClientRequest {
  std::uint64_t client = 0;
};
struct DropCutRequest {
  std::uint64_t client = 0;
  std::uint64_t cut = 0;
};
struct EndRequest {
  std::uint64_t client = 0;
  std::string why;
};

// What decode...() throws for bytes that encode() can't have made is a UsageError.
transport::Message encode(const JobState& state);
transport::Message encode(const JobDescription& description);
transport::Message encode(const ServerHello& hello);
transport::Message encode(const ClientHello& hello);
transport::Message encode(const ClientWelcome& welcome);
transport::Message encode(const Beat& beat);
transport::Message encode(const BeatAnswer& answer);
transport::Message encode(const LeaseRequest& request);
transport::Message encode(const LeaseAnswer& answer);
transport::Message encode(const ClientRequest& request);
transport::Message encode(const DropCutRequest& request);
transport::Message encode(const EndRequest& request);
transport::Message encode(const JobProgress& progress);
transport::Message encode(const server::Cut& cut);
JobState decode_job_state(const transport::Message& message);
JobDescription decode_description(const transport::Message& message);
ServerHello decode_server_hello(const transport::Message& message);
ClientHello decode_client_hello(const transport::Message& message);
ClientWelcome decode_client_welcome(const transport::Message& message);
Beat decode_beat(const transport::Message& message);
BeatAnswer decode_beat_answer(const transport::Message& message);
LeaseRequest decode_lease_request(const transport::Message& message);
LeaseAnswer decode_lease_answer(const transport::Message& message);
ClientRequest decode_client_request(const transport::Message& message);
DropCutRequest decode_drop_cut(const transport::Message& message);
EndRequest decode_end(const transport::Message& message);
JobProgress decode_progress(const transport::Message& message);
server::Cut decode_made_cut(const transport::Message& message);

// The version alone.
transport::Message encode_nothing();
void decode_nothing(const transport::Message& message);
// The status.
transport::Message encode_text(std::string_view text);
std::string decode_text(const transport::Message& message);
// Of kAuthority.
transport::Message encode(const std::vector<replication::Message>& messages);
std::vector<replication::Message> decode_replication(const transport::Message& message);

// Parts, which the coordinator's own records have, too.
void write(Writer& writer, const Portion& portion);
Portion read_portion(Reader& reader);
void write(Writer& writer, const ReplicaReport& report);
ReplicaReport read_report(Reader& reader);
void write(Writer& writer, const JobProgress& progress);
JobProgress read_progress(Reader& reader);

// What a client says with a lease is this, and its wait in milliseconds.
Lease lease_of(const LeaseAnswer& answer);  // REQUIRES: the client is known

}  // namespace convoy::server::calls
