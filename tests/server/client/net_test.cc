// The same through gRPC: the public header alone, in plain text, shared memory and TLS.
#include <gtest/gtest.h>

#include "server/transport/certificates.h"
#include "server/transport/listener.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server {
namespace {

using namespace client::test;
using convoy::test::Scratch;
using convoy::test::spill;

// A cluster's servers and its coordinator at addresses of this host.
class Net {
 public:
  explicit Net(Cluster& cluster, const std::optional<transport::TlsFiles>& tls = std::nullopt) {
    const auto listen = [&](transport::ServerSettings server) {
      transport::ListenerSettings settings;
      settings.server = std::move(server);
      settings.tls = tls;
      settings.log = Log("", Log::Level::error);
      listeners_.push_back(std::make_unique<transport::Listener>(settings));
      return listeners_.back()->address();
    };
    for (const calls::ServerAddress& server : cluster.job().servers) {
      cluster.set_address(server.server, listen(cluster.server_settings(server.server)));
    }
    coordinator_ = listen(cluster.coordinator_settings());
  }
  ClientOptions options(const std::string& name, bool shared = false) const {
    ClientOptions options;
    options.coordinator = coordinator_;
    options.name = name;
    options.shared_memory = shared;
    options.patience = convoy::test::patience();
    options.log = Log("", Log::Level::error);
    return options;
  }

 private:
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::string coordinator_;
};

const JobDescription& description() {
  static const JobDescription all = description_of({5, 1000000, 7});
  return all;
}

void train(const Net& net, Cluster& cluster, ClientOptions options) {
  const Values first =
      values_of(description(), [](auto v, auto i) { return static_cast<float>(v + i % 7); });
  options.role = ClientRole::evaluator;
  Client evaluator(options);
  EXPECT_EQ(evaluator.plan().shards, 2u);
  if (!evaluator.describe(description())) evaluator.initialize(read(first), {}, 0);
  evaluator.set_rates(std::vector<std::pair<std::uint32_t, double>>{{0, 1}});
  options.role = ClientRole::replica;
  Client replica(options);
  replica.join(description());
  EXPECT_NE(replica.id(), 0u);
  Values weights = first;
  replica.fetch(write(weights));
  const Values before = weights;
  const Values g = values_of(description(), [](auto, auto) { return 0.5F; });
  const PushResult result = replica.push(read(g), 4, {1, 4}, replica.fetches());
  EXPECT_EQ(result.kind, PushResult::Kind::applied) << result.why;
  const Cut cut = evaluator.cut();
  evaluator.fetch_cut(cut, write(weights));
  for (std::size_t v = 0; v < weights.size(); ++v) {
    for (std::size_t i = 0; i < weights[v].size(); ++i) {
      ASSERT_EQ(weights[v][i], before[v][i] - 0.5F);
    }
  }
  evaluator.drop_cut(cut);
  evaluator.set_rates(std::vector<std::pair<std::uint32_t, double>>{{0, 0.5}});
  EXPECT_EQ(optim::learning_rate(*cluster.shard(0).definition()->slices[0].rule), 0.5);
  EXPECT_GE(replica.traffic().fetched_bytes, 4000000u);
  EXPECT_GE(evaluator.totals().staleness[0], 2u);
  EXPECT_EQ(evaluator.status(), "{}");
  EXPECT_EQ(evaluator.progress().samples, 12u);
  replica.report({1, 4, 0.5, 4});
  EXPECT_FALSE(replica.lost());
  replica.leave();
}

TEST(ClientNet, TrainsThroughStreamsAndSharedMemory) {
  Cluster cluster(plan_of(2));
  const Net net(cluster);
  for (const bool shared : {false, true}) train(net, cluster, net.options("replica", shared));
  EXPECT_EQ(cluster.reported().steps, 2u);
}

TEST(ClientNet, TrainsThroughTls) {
  const Scratch folder;
  const auto authority = transport::make_authority("CA of the job", transport::Validity::days(1));
  const auto own = transport::issue_certificate(authority, "process", {"127.0.0.1"},
                                                transport::Validity::days(1));
  const transport::TlsFiles files{folder.path("ca"), folder.path("crt"), folder.path("key")};
  spill(files.authority, authority.certificate);
  spill(files.certificate, own.certificate);
  spill(files.key, own.key);
  Cluster cluster(plan_of(2));
  const Net net(cluster, files);
  ClientOptions options = net.options("replica");
  EXPECT_THROW(Client{options}, UsageError);  // in plain text
  options.tls = ClientTls{files.authority, files.certificate, files.key};
  train(net, cluster, options);
}

}  // namespace
}  // namespace convoy::server
