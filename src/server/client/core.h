// What is behind a Client (convoy/server/client.h): everything but how channels are made.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/server/batch.h"
#include "convoy/server/client.h"
#include "server/client/directory.h"
#include "server/client/exchange.h"
#include "server/client/heartbeat.h"
#include "server/client/layout.h"
#include "server/client/traffic.h"
#include "server/client/versions.h"

namespace convoy::server::client {

constexpr Encoding encoding_of(Wire wire) {
  return wire == Wire::bf16 ? Encoding::bf16 : wire == Wire::f16 ? Encoding::f16 : Encoding::f32;
}

// Functions and threads are those of Client.
class Core {
 public:
  Core(ClientOptions options, Connectors connectors);

  const JobPlan& plan() const { return plan_; }
  bool describe(const JobDescription& description);
  void initialize(std::span<const ReadView> values,
                  const std::vector<std::vector<std::span<const float>>>& slots,
                  std::uint64_t steps);
  void join(const JobDescription& description,
            std::optional<std::span<const std::uint32_t>> vectors);
  void catch_up();
  std::uint64_t id() const;
  bool lost() const;
  std::string ended();
  void fetch(std::span<const WriteView> to);
  PushResult push(std::span<const ReadView> gradients, std::uint64_t samples,
                  std::pair<std::uint64_t, std::uint64_t> progress, std::uint64_t fetched,
                  std::span<const std::uint64_t> ids);
  std::uint64_t fetches() const;
  PortionLease lease_portions(const EvaluationId& evaluation, std::span<const PortionGroup> held,
                              std::span<const FinishedPortions> finished, bool at_once);
  Lease lease(std::span<const std::uint64_t> finished);
  void report(const ReplicaReport& report);
  void leave();
  JobProgress progress();
  server::Cut cut();
  void fetch_cut(const server::Cut& cut, std::uint32_t array, std::span<const WriteView> to);
  void drop_cut(const server::Cut& cut);
  void set_rates(std::span<const std::pair<std::uint32_t, double>> rates);
  void end_job(const std::string& why);
  std::string status();
  ClientTraffic traffic() const { return traffic_.sums(); }
  ShardTotals totals();

  // --- a batch optimizer's vectors (batch.cc): BatchClient's ---
  void open_space(Element element);
  template <typename T>
  void put_vector(const optim::VectorName& name, std::span<const BatchView<const T>> values);
  bool batch_initialized(const optim::VectorName& weights);
  template <typename T>
  void fetch_vector(const optim::VectorName& name, std::span<const BatchView<T>> to);
  template <typename T>
  GroupAnswer add_group(const EvaluationId& id, const PortionGroup& group,
                        std::span<const BatchView<const T>> values);
  BatchProgress watch_batch(std::uint64_t after, bool hold);
  void let_go();
  void begin_batch_from(const optim::BatchState& state);
  // To all shards.
  void batch_command(const char* what, const Bytes& command);
  std::vector<double> dots(std::span<const optim::VectorPair> pairs);
  std::vector<PortionRange> seal(const EvaluationId& id, double scale,
                                 std::span<const optim::Term> also);
  std::vector<PortionRange> missing(const EvaluationId& id);

 private:
  // One membership: from join to the end, or to being taken for dead.
  struct Membership {
    std::uint64_t id = 0;
    std::uint64_t sequence = 0;            // of the last push
    std::uint64_t last_portion = 0;        // the largest number that it was given
    std::atomic<std::uint64_t> round = 0;  // of shards, to which the next push belongs; in rounds
    std::vector<std::uint32_t> shards;     // that it is a member of
    std::unique_ptr<Heartbeat> heartbeat;
  };
  struct Parameters {  // of a description
    Parameters(const JobPlan& plan, JobDescription description)
        : layout(plan, std::move(description)), versions(layout.slices()) {}
    const Layout layout;
    Versions versions;
  };
  struct Fetching;
  struct Pushing;

  Clock::time_point deadline() const { return Clock::now() + options_.patience; }
  // Throws Failure when the call fails.
  transport::Message ask(std::string_view method, const transport::Message& request);
  // Of what needs an id alone, which stands in the request. One that turns out to have been taken
  // for dead asks again under another id; throws for a replica.
  transport::Message ask_as_somebody(
      std::string_view method, const std::function<transport::Message(std::uint64_t id)>& request);
  std::shared_ptr<Membership> membership() const;
  std::shared_ptr<Membership> begin_membership(const JobDescription* description);
  std::shared_ptr<Membership> any_membership();  // for what needs an id alone
  void check(const std::shared_ptr<Membership>& membership) const;
  Directory::GiveUp when_to_give_up(std::string_view method) const;
  // Throws Failure, or UsageError where the coordinator has said that it can't go on.
  [[noreturn]] void throw_failed(std::string_view method, const std::string& problem) const;
  [[noreturn]] void throw_lost(const std::string& why) const;
  // Throws UsageError when nothing is described.
  std::shared_ptr<Parameters> parameters();
  std::shared_ptr<Parameters> use(const JobDescription& description);
  // Of an operation; of a member's one that ends when it is lost.
  Exchange::Settings settings(std::string what, Traffic::Kind kind = Traffic::Kind::other,
                              std::shared_ptr<Membership> membership = nullptr);

  // The same command, or one for each, to shards; `said` sees each reply.
  using Said = std::function<void(std::uint32_t shard, const Reply& reply, bool repeated)>;
  void command(const std::string& what,
               const std::vector<std::pair<std::uint32_t, transport::Message>>& commands,
               const Said& said, const std::shared_ptr<Membership>& membership = nullptr);
  void join_shards(const std::shared_ptr<Membership>& membership, const Layout& layout,
                   std::optional<std::span<const std::uint32_t>> vectors);
  void catch_up(const std::shared_ptr<Membership>& membership, const Layout& layout);
  void initialize_shards(const Layout& layout, std::span<const ReadView> values,
                         const std::vector<std::vector<std::span<const float>>>& slots,
                         std::uint64_t steps);
  bool all_have_values(const Layout& layout);
  std::map<std::uint32_t, calls::ShardReport> reports();
  std::optional<std::map<std::uint32_t, std::uint64_t>> rounds();
  void fetch_all(Fetching& fetching);
  void push_all(Pushing& pushing);
  void await_rounds(Pushing& pushing);
  void batch_commands(const char* what,
                      const std::vector<std::pair<std::uint32_t, transport::Message>>& commands);
  void take_batch_reply(const char* what, const Exchange::Result& result);
  std::uint64_t batch_after(std::uint32_t shard);
  std::vector<PortionRange> portions(
      const char* what, std::string_view method,
      const std::function<transport::Message(std::uint32_t shard)>& request);

  const ClientOptions options_;
  Directory directory_;
  JobPlan plan_;
  Traffic traffic_;
  std::uint64_t last_ordinal_ = 0;  // of rates

  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<Parameters> parameters_;
  std::shared_ptr<Membership> membership_;
  // Of each shard the last command on vectors that this client knows to be applied.
  std::vector<std::uint64_t> batch_after_;
};

}  // namespace convoy::server::client
