// A client of a parameter server: what replicas and evaluators see of it. Free of Torch, MPI and
// gRPC.
//
// Dean et al. 2012, section 4.1: replicas fetch parameters from and push gradients to shards, each
// of which holds a part of them. A push is applied exactly once on each shard, whatever dies
// meanwhile: clients repeat what was not acknowledged, under the same number, and the shards know
// it again.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/log.h"
#include "convoy/server/job.h"

namespace convoy::server {

enum class ClientRole : std::uint8_t { replica = 0, evaluator = 1, observer = 2 };

// float32 travels as it is, or rounded.
enum class Wire : std::uint8_t { f32 = 0, bf16 = 1, f16 = 2 };

// PEM files of this process; both sides show a certificate of the job's authority (`convoy certs`).
struct ClientTls {
  std::string authority, certificate, key;
};

// This is what calls throw that gave up because ClientOptions::give_up said so.
class GaveUp : public Failure {
 public:
  using Failure::Failure;
};

struct ClientOptions {
  std::string coordinator;  // "host:port"
  std::optional<ClientTls> tls;
  std::string name;  // for people
  ClientRole role = ClientRole::replica;
  bool shared_memory = true;  // with servers on this host
  Wire push = Wire::f32;
  Wire fetch = Wire::f32;
  // Says how long a call goes on trying while a server or the coordinator is away, before it throws
  // Failure.
  std::chrono::milliseconds patience = std::chrono::minutes(2);
  // Asked about every 100 ms by the constructor and join() while they wait, for the coordinator or
  // for values, and by what a coordinator does with a BatchClient: once it says true they throw
  // GaveUp. So do an evaluator's calls to the coordinator while that doesn't answer, but for cut():
  // some seconds later, since there may be something to save. What a member has to do in order,
  // leaving among it, doesn't ask. Called by the thread that waits; none: never.
  std::function<bool()> give_up;
  // These say which process of a replica of several this is, and the id of the first one's client,
  // which the first one has from id() after join().
  std::uint32_t member = 0, members = 1;
  std::uint64_t group = 0;
  convoy::Log log;
};

// These are samples that a replica has for itself: positions begin to end - 1 of an epoch's order.
struct Portion {
  std::uint64_t number = 0;  // 1, 2, ...; never used twice in a job. Fits into 32 bits
  std::uint64_t epoch = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // in rounds perhaps where it begins: none of this round
  bool operator==(const Portion&) const = default;
};

struct Lease {
  enum class Kind : std::uint8_t { portion, wait, finished };
  Kind kind = Kind::wait;
  Portion portion;
  std::chrono::milliseconds wait{0};  // ask again then
  std::string why;
};

// This is what a replica tells the coordinator, since its last report.
struct ReplicaReport {
  std::uint64_t steps = 0;  // mini-batches
  std::uint64_t samples = 0;
  double loss_sum = 0;  // over steps, each weighted with its samples
  double weight = 0;    // their sum
  double compute_s = 0, fetch_wait_s = 0, push_wait_s = 0, data_wait_s = 0;
  std::uint64_t skipped = 0;  // bad records, in all
};

struct JobProgress {
  std::string ended;        // why the job is over; empty while it isn't
  std::uint64_t epoch = 0;  // the first one of which not everything is done
  std::vector<std::pair<std::uint64_t, std::uint64_t>> consumed;  // of it: [begin, end), ascending
  std::uint64_t samples = 0;   // done, of the whole job, each counted once
  std::uint64_t twice = 0;     // that were used more than once, since a replica was lost
  std::uint64_t redone = 0;    // portions that were given out again
  bool all_done = false;       // nothing is left to hand out or outstanding
  std::uint32_t replicas = 0;  // now
  ReplicaReport reported;      // of all replicas together, since the job began
};

// These are the parameters as they were at one moment, while replicas went on.
struct Cut {
  std::uint64_t id = 0;
  JobProgress progress;       // as of the cut
  std::uint64_t version = 0;  // the largest number of updates that a slice has had
};

// Says where the values of a vector, or of a part of it, are in this process.
struct ReadView {
  std::uint32_t vector = 0;  // its place in JobDescription::vectors
  std::span<const float> values;
};
struct WriteView {
  std::uint32_t vector = 0;
  std::span<float> values;
};

struct PushResult {
  enum class Kind : std::uint8_t {
    applied,      // by all shards
    fetch_again,  // too stale for some shard, which has not applied it; others may have
    refused       // by a shard: `why` says what is wrong with it (not finite, shape)
  };
  Kind kind = Kind::applied;
  std::uint64_t staleness = 0;  // the largest of the shards'
  std::string why;
};

struct ClientTraffic {  // of this client, since it was made
  std::uint64_t pushed_bytes = 0, fetched_bytes = 0, pushes = 0, fetches = 0, retries = 0;
  std::vector<std::uint64_t> pushed_by_shard, fetched_by_shard;  // bytes
  // Of a batch optimizer's commands and questions to shards, and of their answers: scalars.
  std::uint64_t batch_sent_bytes = 0, batch_received_bytes = 0, batch_requests = 0;
};

// This is what shards have counted, of all clients and of all shards together, since their servers
// began.
struct ShardTotals {
  std::array<std::uint64_t, 36> staleness{};  // pushes by staleness (docs/server-format.md)
  std::uint64_t pushed_bytes = 0, fetched_bytes = 0;
};

// Threads: fetch(), push() and everything else may each be called by a thread of its own, and two
// calls of the same kind one after the other only; what only says something (id(), lost(), ended(),
// fetches(), traffic()) by any. While it is joined, a thread of the client's own tells the
// coordinator that it lives. No call may be under way when it is destroyed.
//
// While the coordinator is away, fetches and pushes go on as long as the shards' primaries answer.
//
// Calls throw UsageError for what the caller has to change, Failure when their patience is over,
// when this client is lost(), and when the job is over and servers have gone.
class Client {
 public:
  // Waits for the coordinator. Throws UsageError, also for a coordinator of another version;
  // Failure when its patience is over, or it gives up.
  explicit Client(ClientOptions options);
  ~Client();  // without leaving: the coordinator finds out when the lease is over
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const JobPlan& plan() const;

  // --- to begin with ---
  // Evaluator: says what the network consists of; has no effect said again. Throws UsageError with
  // the difference when something else was said before. Returns whether the parameters have values
  // already; if not, initialize() gives them.
  bool describe(const JobDescription& description);
  // Values, and the state of the rules (slots[v][k]: slot k of optim::slots of vector v of the
  // description; empty: the initial one) after `steps` updates. Values of some vectors only, too:
  // replicas may join when all have some, whoever gave them. Repeated calls have no effect on what
  // has values.
  void initialize(std::span<const ReadView> values,
                  const std::vector<std::vector<std::span<const float>>>& slots,
                  std::uint64_t steps);
  // Replica: becomes a member of the shards that have parts of `vectors`, the only ones that it
  // will push: of none where it names none. Without a list, of all. Waits, as long as it takes,
  // until the parameters have values. Throws UsageError with the difference when the network is
  // another one than was described; Failure when the job is over, or it gives up.
  void join(const JobDescription& description,
            std::optional<std::span<const std::uint32_t>> vectors = std::nullopt);
  // In rounds shards learn of a replica one after the other, and some may have gone on without it.
  // Completes with nothing of its own the rounds that the others have begun, so that all shards are
  // at the same one. To be called by each process of a replica when all of them have joined, before
  // the first lease. Waits for the other replicas; throws Failure when this client is lost().
  // Without effect where the job isn't in rounds, or is over.
  void catch_up();
  std::uint64_t id() const;  // of this client; 0 before it joined
  // Says whether the job goes on without this client, which was taken for dead: everything that it
  // has leased belongs to others. It can join() again, as another one.
  bool lost() const;
  // Says why the job is over; empty while it isn't.
  std::string ended() const;

  // --- a replica's work ---
  // Into `to`; what was fetched last into the same memory and has not changed since is not sent
  // again, so that this memory must be as fetch() left it.
  void fetch(std::span<const WriteView> to);
  // Pushes gradients (of statistics, what they moved by), of `samples` samples, computed with what
  // was fetched last before `fetched` fetches were complete (fetches() of that moment). `progress`
  // says how many samples of which portion are done with this push, both less than 2^32. `ids` go
  // into the shards' ledger. Returns when all shards that have parts of these vectors have applied
  // it; in rounds these wait for the other replicas, however long. A replica whose portion has no
  // samples pushes nothing in that round: no gradients, of 0 samples. Throws Failure when that is
  // not known after its patience, or when this client is lost(). The values must not change until
  // it returns.
  PushResult push(std::span<const ReadView> gradients, std::uint64_t samples,
                  std::pair<std::uint64_t, std::uint64_t> progress, std::uint64_t fetched,
                  std::span<const std::uint64_t> ids = {});
  std::uint64_t fetches() const;  // that are complete
  // Asks for samples; `finished` are portions that are done: all their pushes were applied.
  Lease lease(std::span<const std::uint64_t> finished);
  // Told to the coordinator with the next sign of life.
  void report(const ReplicaReport& report);
  void leave();  // in order: nothing is leased to it any more

  // --- an evaluator's ---
  JobProgress progress();
  // Makes a cut of all shards, with the same last push of each replica on all of them, and waits
  // for it. Values of a cut are exact, whatever `fetch` of the options says.
  Cut cut();
  void fetch_cut(const Cut& cut, std::span<const WriteView> to);
  // Slot `slot` of the rules' states.
  void fetch_cut_slot(const Cut& cut, std::uint32_t slot, std::span<const WriteView> to);
  void drop_cut(const Cut& cut);
  // New learning rates, by vector; the coordinator's evaluator sets them as its schedule says.
  void set_rates(std::span<const std::pair<std::uint32_t, double>> rates);
  void end_job(const std::string& why);

  // --- anybody's ---
  std::string status();  // JSON
  ClientTraffic traffic() const;
  ShardTotals totals();

 private:
  friend class BatchClient;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::server
