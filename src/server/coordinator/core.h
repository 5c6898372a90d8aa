// What a coordinator does, without sockets, threads and clocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/coordinator/batch_record.h"
#include "server/coordinator/effects.h"
#include "server/coordinator/facts.h"
#include "server/coordinator/group_ledger.h"
#include "server/coordinator/ledger.h"
#include "server/coordinator/rate.h"
#include "server/coordinator/records.h"
#include "server/replication/authority.h"
#include "server/service/coordinator_calls.h"
#include "server/service/shard_calls.h"

namespace convoy::server::coordinator {

// How the portions of a batch are handed out (group_ledger.h).
struct BatchGroups {
  std::uint8_t largest = GroupOptions().largest;
  bool backups = true;
};

struct CoreOptions {
  // Of a job that begins; one that is in the store goes on, with this recipe if there is one: the
  // caller has seen that it may.
  JobRecord job;
  std::uint64_t term = 1;                  // of the store
  std::uint64_t life = 1;                  // of the authority: never the same twice
  std::vector<std::uint32_t> accept_loss;  // shards: see replication::Rules::successor
  std::size_t largest_value = SIZE_MAX;    // of the store
  // Of a batch optimization (Sandblaster), whose portions have plan.portion samples each; else
  // samples are leased as Downpour does it.
  std::optional<BatchGroups> batch;
  optim::BatchMethod batch_method = optim::BatchMethod::lbfgs;
  Time poll = replication::milliseconds(1000);           // of the shards' reports
  Time retry = replication::milliseconds(150);           // of what failed
  Time cut_wait = replication::milliseconds(2000);       // for the pushes that a cut is to have
  Time cut_patience = replication::milliseconds(60000);  // until no cut came about
};

// Driven by events; each returns what is to be done, in this order. Time is any clock's: where it
// jumps, nobody is taken for dead before another lease is over.
//
// What must survive is stored before it is answered (docs/server-coordinator.md).
//
// One thread at a time.
class Core {
 public:
  // `stored`: all that the store has. Throws Failure for what no coordinator stored.
  Core(Time now, CoreOptions options, const std::map<std::string, Value>& stored);
  ~Core();

  Effects begin();  // once, first
  Effects call(Time now, CallId call, std::string_view method, const transport::Message& request);
  Effects stored(Time now, std::uint64_t ticket);
  // Nothing: it can't be known whether the server has done it; `problem` says why.
  Effects answered(Time now, std::uint64_t ask, const std::optional<transport::Message>& answer,
                   const std::string& problem);
  Effects configuration(Time now, std::uint32_t shard,
                        const replication::ConfigurationStore::Answer& answer);
  Effects tick(Time now);  // every 50 ms or so

  // --- of a batch optimization: what its method asks for ---
  // Throw UsageError where the job is none, or isn't described yet.
  // Replicas get its portions; goes on where it was if that has begun already.
  Effects begin_evaluation(Time now, const EvaluationId& id);
  // EvaluationOver says so, once, with this token; a later call takes the place of one before.
  Effects await_evaluation(Time now, std::uint64_t token);
  Effects portions_missing(Time now, std::span<const PortionRange> ranges);
  // What the method goes on from after this process (batch_run.h): a start without answers, or else
  // answers. BatchKept says when it survives a power cut.
  Effects keep_batch(Time now, std::uint64_t token, std::optional<Bytes> start, Bytes answers);
  // The method makes no more iterations; the job isn't over.
  Effects batch_over(Time now, const std::string& why);
  // The method can't go on, and another process would find the same. The job isn't over: evaluators
  // are told why in the place of an answer, whatever they watch for, and with each sign of life.
  Effects batch_failed(Time now, const std::string& why);
  bool evaluators_know_failure() const;               // all that there are
  Effects end_job(Time now, const std::string& why);  // without effect on one that has ended
  const Bytes& batch_start() const { return batch_start_; }
  const Bytes& batch_answers() const { return batch_answers_; }
  // So many bytes more went between the method and the shards, there and back.
  void count_method_bytes(std::uint64_t bytes);
  // Vectors that the method may not free: evaluators fetch them.
  std::vector<optim::VectorName> batch_held() const;
  // Nothing where the job is none, or isn't described yet.
  std::optional<GroupOptions> batch_groups() const;

  // Nobody waits for the answers to these calls any more; there are none then.
  void abandoned(const std::set<CallId>& calls);
  std::size_t waiting() const { return when_stored_.size(); }  // for the store

  const std::string& id() const { return job_.id; }
  const JobPlan& plan() const { return job_.plan; }
  // The job has ended, and everybody who has to know was told or is gone.
  bool over() const;
  Facts facts() const;

 private:
  struct ClientState {
    ClientEntry entry;
    Time heard = 0;
    std::uint64_t last_report = 0;  // number
    std::uint64_t samples = 0, steps = 0;
    Rate rate;
    bool knows_end = false;      // an answer to it said that the job has ended
    bool knows_failure = false;  // or that the batch optimization can't go on
  };
  struct Leaving;
  struct GroupState {
    std::uint32_t members = 1;
    std::map<std::uint32_t, std::uint64_t> clients;  // by member
    std::unique_ptr<Leaving> leaving;
    bool asked = false;  // for samples: it is a member of its shards
    bool complete() const { return clients.size() == members; }
  };
  struct ServerState {
    calls::ServerHello hello;
    std::optional<Time> heard;
    std::map<std::uint32_t, replication::Message> mail;  // by shard, the newest
  };
  struct ShardState {
    replication::Configuration configuration;
    std::optional<calls::ShardReport> report;
    Time reported = 0;
    Time next_poll = 0;
    bool polling = false;
    std::set<std::uint64_t> removing;  // clients that nobody knows, and that are told to leave
    std::optional<Time> stuck_since;   // only an operator can say who is to serve it
    replication::Epoch told_stuck = 0;
  };
  struct CutRun;
  struct DropRun;
  struct BatchWork;
  // What a shard's primary said; nothing, with the reason, when that can't be known.
  using Said = std::function<void(const calls::Answered* answer, const std::string& problem)>;

  // --- core.cc: time, answers, the store ---
  Effects done();
  void at(Time now);
  void tell(Tell::Level level, std::string line);
  void reply(CallId call, transport::Message message);  // when all that was changed is stored
  void reply_now(CallId call, transport::Message message);
  void when_stored(std::function<void()> what, CallId answers = 0);
  void put(const std::string& key, Bytes value, Survives survives = Survives::process);
  void remove(const std::string& key);
  void put_state(Survives survives = Survives::process);
  void put_servers();
  void put_cuts();
  void load(const std::map<std::string, Value>& stored);
  void load_clients(const std::map<std::string, Value>& stored);
  void make_ledger();

  // --- core_calls.cc: what everybody asks ---
  void dispatch(CallId call, std::string_view method, const transport::Message& request);
  void on_describe(CallId call, const transport::Message& request);
  void on_initialized(CallId call, const transport::Message& request);
  void on_server(CallId call, const transport::Message& request);
  void on_authority(CallId call, const transport::Message& request);
  void on_drop_cut(CallId call, const transport::Message& request);
  void on_end(CallId call, const transport::Message& request);
  void end(const std::string& why);
  calls::JobState state() const;
  JobProgress progress() const;
  void carry_out(replication::AuthorityEffects effects);

  // --- core_clients.cc ---
  void on_join(CallId call, const transport::Message& request);
  void on_beat(CallId call, const transport::Message& request);
  void on_lease(CallId call, const transport::Message& request);
  void on_leave(CallId call, const transport::Message& request);
  calls::LeaseAnswer lease(std::uint64_t group, const calls::LeaseRequest& request);
  std::string why_incomplete(const GroupState& group) const;
  std::string why_wait(const GroupState& group);
  bool warm();
  ClientState* known(std::uint64_t client);  // and heard now
  ClientState& require(std::uint64_t client);
  std::uint32_t live_replicas() const;  // complete ones
  void put_group(std::uint64_t group);
  void add(ClientState& client, const calls::Beat& beat);

  // --- core_batch.cc ---
  std::unique_ptr<BatchWork> new_batch(const Ledger& ledger) const;
  BatchWork& batch_work();
  void load_batch(const std::map<std::string, Value>& stored);
  void on_portions(CallId call, const transport::Message& request);
  void on_watch(CallId call, const transport::Message& request);
  void on_begin_from(CallId call, const transport::Message& request);
  void set_batch_start(Bytes start);
  void refuse_failed(std::uint64_t client);
  void hear_early_ones();
  void put_batch_changes();
  void speak_of_batch();
  std::optional<BatchFacts> batch_facts() const;

  // --- core_leaving.cc ---
  void find_stuck();
  void find_lost();
  bool knows_end(const ClientState& client) const;
  void lose(std::uint64_t client);  // of any role
  void begin_leaving(std::uint64_t group);
  void go_on_leaving(std::uint64_t group);
  void left(std::uint64_t group, std::uint32_t shard, std::uint64_t client,
            const calls::Answered* answer);
  void resolve(std::uint64_t group);

  // --- core_shards.cc ---
  // False when nobody can be asked now.
  bool ask(std::uint32_t shard, std::string_view method, transport::Message request, Time patience,
           Said said);
  void poll();
  void take_report(std::uint32_t shard, calls::ShardReport report);
  void remove_unknown(std::uint32_t shard);

  // --- core_cuts.cc ---
  void next_cut();
  void begin_attempt();
  void cut_report(std::uint64_t attempt, std::uint32_t shard, const calls::Answered* answer,
                  const std::string& problem);
  void ask_cuts();
  void cut_answer(std::uint64_t attempt, std::uint32_t shard, const calls::Answered* answer,
                  const std::string& problem);
  void compare_cuts();
  void again(const std::string& why);
  void end_cut(const std::string& problem);
  void tick_cuts();
  void on_make_cut(CallId call, const transport::Message& request);
  std::vector<LastPushes> targets();
  std::set<std::uint32_t> all_shards() const;
  void drop(std::uint64_t cut, const std::set<std::uint32_t>& later = {});
  void drop_cuts_of(std::uint64_t client);
  void go_on_dropping();

  CoreOptions options_;
  JobRecord job_;
  StateRecord state_;
  std::optional<JobDescription> description_;
  std::map<std::uint64_t, ServerState> servers_;
  std::vector<ShardState> shards_;
  std::map<std::uint64_t, ClientState> clients_;  // live ones, and those that are leaving
  std::map<std::uint64_t, GroupState> groups_;    // replicas
  std::set<std::uint64_t> leaving_;               // of these
  // Clients of replicas that are gone, of which that isn't stored yet: shards have to keep what
  // they know of them.
  std::set<std::uint64_t> resolved_;
  std::optional<Ledger> ledger_;
  ReplicaReport reported_;
  std::unique_ptr<BatchWork> batch_;
  Bytes batch_start_, batch_answers_;
  BatchStart batch_brief_;  // batch_start_ without scalar products, whose number grows with m^2
  std::string batch_failed_;
  std::map<std::uint64_t, std::vector<optim::VectorName>> batch_held_;  // by evaluator
  std::map<std::uint64_t, CutEntry> cuts_;
  std::optional<Time> warm_began_;  // in this coordinator's life
  std::optional<Time> lost_at_;     // when one that may not know the end was taken for dead
  std::uint64_t warm_group_ = 0;

  replication::Rules rules_;
  std::unique_ptr<replication::Authority> authority_;

  // The cut that is being made, those that wait for it, those that are dropped.
  struct WaitingCut {
    CallId call = 0;
    std::uint64_t client = 0;
  };
  std::deque<WaitingCut> waiting_cuts_;
  std::unique_ptr<CutRun> cut_;
  std::map<std::uint64_t, std::unique_ptr<DropRun>> dropping_;
  std::uint32_t next_cut_ = 1;
  std::uint64_t attempts_ = 0;
  struct Seen {
    std::uint64_t sequence = 0;
    Time when = 0;
  };
  std::map<std::uint64_t, Seen> seen_;  // how far clients were, by reports

  Time clock_;    // of the host
  Time now_ = 0;  // since its start
  Time patient_until_;
  std::optional<Time> ended_at_;
  Effects effects_;
  std::vector<Write> dirty_;  // of this event, each key once
  std::unordered_map<std::string, std::size_t> dirty_keys_;
  Survives survives_ = Survives::process;
  std::uint64_t ticket_ = 0, stored_ = 0;
  struct Later {
    std::function<void()> what;
    CallId answers = 0;  // nothing but this call
    std::uint64_t ticket = 0;
  };
  std::deque<Later> when_stored_;
  std::vector<Later> after_event_;  // those of this event
  std::map<std::uint64_t, Said> asked_;
  std::uint64_t next_ask_ = 1;
};

}  // namespace convoy::server::coordinator
