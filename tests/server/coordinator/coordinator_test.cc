// A coordinator process with its address, store and metrics.
#include "server/coordinator/coordinator.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "server/coordinator/facts.h"
#include "server/coordinator/log_store.h"
#include "server/coordinator/metrics_server.h"
#include "server/log/simulated_disk.h"
#include "server/service/coordinator_calls.h"
#include "server/service/portion_calls.h"
#include "server/transport/address.h"
#include "server/transport/certificates.h"
#include "server/transport/grpc_connector.h"
#include "tests/base/leave_out.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/coordinator/full_start.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
using transport::Message;

convoy::Log quiet() { return convoy::Log("", convoy::Log::Level::error); }

CoordinatorSettings settings() {
  CoordinatorSettings settings;
  settings.plan.name = "job \"one\"\n\\";
  settings.plan.backups = false;
  settings.plan.batch = settings.plan.portion = 4;
  settings.plan.epochs = 1;
  settings.plan.client_lease_ms = 600'000;  // whose clients say nothing
  settings.log = quiet();
  return settings;
}

JobDescription description() { return {"model", {{"a", 4, std::nullopt}}, 16, "data"}; }

class Way {
 public:
  explicit Way(const std::string& address) {
    transport::ChannelSettings with;
    with.identity = {std::string(calls::kCoordinator), ""};
    channel_ = std::make_unique<transport::Channel>(with, transport::grpc_connector(address));
  }
  Message call(std::string_view method, const Message& request) {
    const auto until = Clock::now() + convoy::test::patience();
    const auto answer = channel_->call(std::string(method), request, until).get();
    if (answer.status == transport::Answer::Status::failed) throw UsageError(answer.problem);
    if (answer.status != transport::Answer::Status::done) throw Failure(answer.problem);
    return answer.message;
  }
  std::uint64_t begin() {
    call(calls::kDescribe, calls::encode(description()));
    call(calls::kInitialized, calls::encode_nothing());
    return calls::decode_client_welcome(
               call(calls::kJoin, calls::encode(calls::ClientHello{
                                      "r\xff \"x\"", ClientRole::replica, 0, 0, 1, description()})))
        .client;
  }
  calls::LeaseAnswer lease(std::uint64_t client, std::uint64_t last = 0) {
    return calls::decode_lease_answer(
        call(calls::kLease, calls::encode(calls::LeaseRequest{client, last, {}})));
  }

 private:
  std::unique_ptr<transport::Channel> channel_;
};

transport::Address parsed(const std::string& address) { return transport::Address::parse(address); }

std::string metrics_of(const std::string& address) {
  httplib::Client client("127.0.0.1", parsed(address).port);
  client.set_read_timeout(convoy::test::patience());
  const auto answer = client.Get("/metrics");
  if (!answer) return "no answer";
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  return answer->body;
}

// By Prometheus' own parser.
void check_metrics(const std::string& text) {
  if (!std::filesystem::exists("/usr/bin/promtool")) {
    LEAVE_OUT("there is no promtool: tools/setup.sh --tests installs prometheus");
  }
  const convoy::test::Scratch scratch;
  std::ofstream(scratch.path("metrics")) << text;
  const std::string command = "/usr/bin/promtool check metrics < " + scratch.path("metrics") +
                              " > " + scratch.path("said") + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_text_file(scratch.path("said")) << text;
  EXPECT_EQ(read_text_file(scratch.path("said")), "") << text;
}

TEST(Coordinator, ServesAJobAndGoesOnAfterItsEnd) {
  const convoy::test::Scratch scratch;
  const auto open = [&] { return std::make_shared<LogStore>(scratch.path("data"), quiet()); };
  std::string id;
  std::uint64_t client = 0;
  Portion portion;
  {
    EXPECT_FALSE(stored_job(*open()));
    Coordinator process(open(), settings());
    id = process.job();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_THROW(open(), Failure) << "the folder is in use";
    Way way(process.address());
    client = way.begin();
    portion = way.lease(client).portion;
    EXPECT_EQ(portion.end, 4u);
    EXPECT_THROW(way.call(calls::kLease, calls::encode_nothing()), UsageError);
    EXPECT_THROW(way.call("nothing", calls::encode_nothing()), UsageError);
    EXPECT_FALSE(process.over());
    EXPECT_NE(process.status().find("\"phase\":\"training\""), std::string::npos);
  }  // as if it had been killed
  EXPECT_EQ(stored_job(*open())->id, id);
  EXPECT_EQ(stored_job(*open())->plan, settings().plan);
  CoordinatorSettings other = settings();
  other.plan.name = "another";
  Coordinator process(open(), other);
  Way way(process.address());
  const auto state = calls::decode_job_state(way.call(calls::kJob, calls::encode_nothing()));
  EXPECT_EQ(state.id, id);
  EXPECT_EQ(state.plan, settings().plan) << "the stored one counts";
  EXPECT_TRUE(state.initialized);
  EXPECT_EQ(way.lease(client).portion, portion);
  EXPECT_EQ(way.lease(client, portion.number).portion.begin, 4u);
  process.close();
  EXPECT_THROW(process.status(), Failure);
}

TEST(Coordinator, ALaterOneEndsIt) {
  const auto store = std::make_shared<LogStore>(std::make_shared<SimulatedDisk>(), quiet());
  std::atomic<int> ended = 0;
  CoordinatorSettings first = settings();
  first.fatal = [&](const std::string& why) {
    EXPECT_NE(why.find("taken over"), std::string::npos) << why;
    ++ended;
  };
  Coordinator one(store, first);
  Way to_one(one.address());
  const std::uint64_t client = to_one.begin();
  {
    // What can't listen takes nothing over.
    CoordinatorSettings taken = settings();
    taken.listen = one.address();
    EXPECT_THROW(Coordinator(store, taken), UsageError);
    EXPECT_EQ(to_one.lease(client).kind, calls::LeaseAnswer::Kind::portion);
  }
  Coordinator two(store, settings());
  EXPECT_THROW(to_one.lease(client, 1), std::exception) << "it answers nothing that isn't stored";
  const auto until = Clock::now() + convoy::test::patience();
  while (ended == 0 && Clock::now() < until) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(ended, 1);
  Way to_two(two.address());
  EXPECT_EQ(to_two.lease(client).portion.begin, 0u);
}

TEST(Coordinator, WaitsForAFullDisk) {
  const auto disk = std::make_shared<SimulatedDisk>();
  Coordinator process(std::make_shared<LogStore>(disk, quiet()), settings());
  Way way(process.address());
  const std::uint64_t client = way.begin();
  disk->set_capacity(disk->used());
  std::thread later([&] {
    std::this_thread::sleep_for(300ms);
    disk->set_capacity(UINT64_MAX);
  });
  EXPECT_EQ(way.lease(client).portion.end, 4u);
  later.join();
}

// A store that takes small values alone, as etcd does.
class SmallStore final : public StateStore {
 public:
  explicit SmallStore(const std::string& folder) : store_(folder, quiet()) {}
  std::string where() const override { return store_.where(); }
  std::uint64_t begin() override { return store_.begin(); }
  std::optional<Value> read(const std::string& key) override { return store_.read(key); }
  std::map<std::string, Value> list(const std::string& prefix) override {
    return store_.list(prefix);
  }
  Changed change(std::uint64_t term, std::span<const Write> writes, Survives survives) override {
    return store_.change(term, writes, survives);
  }
  Changed settle() override { return store_.settle(); }
  std::size_t largest_value() const override { return 100'000; }

 private:
  LogStore store_;
};

TEST(Coordinator, SaysWhatABatchOptimizationCanNotDo) {
  const convoy::test::Scratch scratch;
  const auto refusal = [&](const CoordinatorSettings& with) -> std::string {
    try {
      const Coordinator coordinator(std::make_shared<SmallStore>(scratch.path("store")), with);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  CoordinatorSettings with = settings();
  with.batch.emplace();
  EXPECT_EQ(refusal(with), "");
  with.batch->method.history = 100;
  EXPECT_NE(refusal(with).find("history = 100"), std::string::npos) << refusal(with);
  with.batch->method.history = 0;
  EXPECT_NE(refusal(with).find("history = 0"), std::string::npos) << refusal(with);
  with.batch->method.history = 10;
  with.batch->groups.largest = 9;
  EXPECT_NE(refusal(with).find("largest = 9"), std::string::npos) << refusal(with);
  with.batch->groups.largest = 8;
  for (const double l2 : {-1.0, std::nan(""), HUGE_VAL}) {
    with.batch->l2 = l2;
    EXPECT_NE(refusal(with).find("l2 = "), std::string::npos) << refusal(with);
  }
  with.batch->l2 = 0;
  for (const char* listen : {"0.0.0.0:0", "[::]:0"}) {
    with.listen = listen;
    EXPECT_NE(refusal(with).find(std::string("no certificate is for ") + listen), std::string::npos)
        << refusal(with);
  }
}

TEST(Metrics, ArePrometheus) {
  CoordinatorSettings with = settings();
  with.metrics = "127.0.0.1:0";
  Coordinator process(std::make_shared<LogStore>(std::make_shared<SimulatedDisk>(), quiet()), with);
  Way way(process.address());
  const std::uint64_t client = way.begin();
  way.call(calls::kBeat,
           calls::encode(calls::Beat{client, 1, {2, 8, 4, 8, 0.5, 0.25, 0.125, 1, 3}}));
  const std::string text = metrics_of(process.metrics_address());
  EXPECT_NE(text.find("\nconvoy_samples_reported_total 8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("convoy_job_info{job=\"" + process.job() +
                      "\",name=\"job \\\"one\\\"\\n\\\\\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("convoy_replica_seconds_total{activity=\"fetch_wait\"} 0.25\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("name=\"r? \\\"x\\\"\"} 8\n"), std::string::npos) << text;
  check_metrics(text);
  httplib::Client http("127.0.0.1", parsed(process.metrics_address()).port);
  http.set_read_timeout(convoy::test::patience());
  const auto other = http.Get("/other");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, 404);
}

TEST(Metrics, OfShardsArePrometheusToo) {
  const JobPlan plan = settings().plan;
  Facts facts;
  facts.plan = &plan;
  facts.shards.resize(2);
  facts.shards[0].configuration = {0, 3, {1, 1}, {2, 1}};
  calls::ShardReport report;
  report.applied = 100;
  report.backup_lag = 7;
  report.versions = {3, 9, 4};
  report.staleness.add(0);
  report.staleness.add(20);
  report.staleness.add(20);
  report.staleness.add(UINT64_MAX);
  report.clients = {{1, {}}};
  report.clients[0].client.refused_not_finite = 5;
  facts.shards[0].report = report;
  facts.shards[1].configuration = {1, 0, {}, {}};
  facts.servers = {{1, "h:1", 0.5}, {2, "", std::nullopt}};
  facts.progress.reported.loss_sum = std::nan("");
  facts.progress.reported.weight = 1;
  const std::string text = metrics_text(facts);
  for (const char* line : {"convoy_shard_backup_lag_commands{shard=\"0\"} 7\n",
                           "convoy_shard_version{shard=\"0\"} 9\n",
                           "convoy_push_staleness_versions_bucket{shard=\"0\",le=\"15\"} 1\n",
                           "convoy_push_staleness_versions_bucket{shard=\"0\",le=\"31\"} 3\n",
                           "convoy_push_staleness_versions_bucket{shard=\"0\",le=\"+Inf\"} 4\n",
                           "convoy_push_staleness_versions_count{shard=\"0\"} 4\n",
                           "convoy_shard_refused_pushes{shard=\"0\",reason=\"not finite\"} 5\n",
                           "convoy_shard_epoch{shard=\"1\"} 0\n", "convoy_loss_mean NaN\n",
                           "convoy_server_heard_seconds{server=\"1\",address=\"h:1\"} 0.5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  check_metrics(text);
}

// Clients that say nothing, half of a request, or what is none, take the place of nobody for long.
TEST(Metrics, SlowClientsHurtNobody) {
  CoordinatorSettings with = settings();
  with.metrics = "127.0.0.1:0";
  Coordinator process(std::make_shared<LogStore>(std::make_shared<SimulatedDisk>(), quiet()), with);
  std::vector<Descriptor> open;
  for (const std::string& address : {process.metrics_address(), process.address()}) {
    for (int i = 0; i < 24; ++i) {
      open.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(parsed(address).port));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(::connect(open.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
      const std::string half = i % 3 == 0   ? ""
                               : i % 3 == 1 ? "GET /metr"
                                            : "\x01\xff\x02 garbage\n";
      ASSERT_EQ(::send(open.back().get(), half.data(), half.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(half.size()));
    }
  }
  Way way(process.address());
  EXPECT_EQ(way.lease(way.begin()).kind, calls::LeaseAnswer::Kind::portion);
  EXPECT_NE(metrics_of(process.metrics_address()).find("convoy_epoch 0\n"), std::string::npos);
}

TEST(Metrics, BeyondThisHostOnlyWithCertificates) {
  const auto text = [] { return std::string("convoy_epoch 0\n"); };
  EXPECT_THROW(MetricsServer("0.0.0.0:0", std::nullopt, text), UsageError);
  using namespace transport;
  const convoy::test::Scratch scratch;
  const auto files = [&](const std::string& name) {
    const auto authority = make_authority(name + " authority", Validity::days(1));
    const auto own = issue_certificate(authority, name, {"127.0.0.1"}, Validity::days(1));
    const TlsFiles files{scratch.path(name + ".ca"), scratch.path(name + ".crt"),
                         scratch.path(name + ".key")};
    std::ofstream(files.authority) << authority.certificate;
    std::ofstream(files.certificate) << own.certificate;
    std::ofstream(files.key) << own.key;
    return files;
  };
  const TlsFiles ours = files("ours"), theirs = files("theirs");
  MetricsServer server("0.0.0.0:0", ours, text);
  const int port = parsed(server.address()).port;
  const auto get = [&](const TlsFiles& own) {
    httplib::SSLClient client("127.0.0.1", port, own.certificate.string(), own.key.string());
    client.set_ca_cert_path(ours.authority.c_str());
    client.enable_server_certificate_verification(true);
    client.set_read_timeout(convoy::test::patience());
    return client.Get("/metrics");
  };
  const auto good = get(ours);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->body, "convoy_epoch 0\n");
  EXPECT_FALSE(get(theirs));
  EXPECT_FALSE(get(TlsFiles{}));
  EXPECT_FALSE(httplib::Client("127.0.0.1", port).Get("/metrics")) << "plain text";
}

// A job goes on from a checkpoint by one message that has all that is known of the steps.
TEST(Coordinator, GoesOnWithTheLongestHistory) {
  const convoy::test::Scratch scratch;
  CoordinatorSettings with = settings();
  with.batch.emplace();
  with.batch->method.history = kLongestHistory + 1;
  const auto open = [&] { return std::make_shared<LogStore>(scratch.path("data"), quiet()); };
  EXPECT_NE(convoy::test::message_of<UsageError>([&] {
              Coordinator(open(), with);
            }).find("history = " + std::to_string(kLongestHistory + 1) + ": "),
            std::string::npos);
  with.batch->method.history = kLongestHistory;
  Bytes start = encode(test::full_start(kLongestHistory));
  for (const bool first : {true, false}) {  // and another process reads it again
    Coordinator coordinator(open(), with);
    Way way(coordinator.address());
    const auto join = [&] {
      return calls::decode_client_welcome(
                 way.call(calls::kJoin, calls::encode(calls::ClientHello{
                                            "evaluator", ClientRole::evaluator, 0, 0, 1, {}})))
          .client;
    };
    if (first) {
      way.call(calls::kDescribe, calls::encode(description()));
      way.call(calls::kBeginFrom, calls::encode(calls::BatchFrom{join(), start}));
      EXPECT_THROW(
          way.call(calls::kBeginFrom, calls::encode(calls::BatchFrom{
                                          join(), encode(test::full_start(kLongestHistory + 1))})),
          std::exception);
    }
    using Hold = calls::WatchRequest::Hold;
    const Message held =
        way.call(calls::kWatch, calls::encode(calls::WatchRequest{join(), 0, Hold::hold}));
    EXPECT_EQ(calls::decode_watch_answer(held).start, start);
    const Message brief =
        way.call(calls::kWatch, calls::encode(calls::WatchRequest{0, 0, Hold::keep}));
    EXPECT_LT(brief.size(), std::size_t{64} << 10);
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
