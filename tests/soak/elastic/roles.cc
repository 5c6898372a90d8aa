#include "tests/soak/elastic/roles.h"

#include <algorithm>
#include <memory>
#include <span>
#include <sstream>
#include <thread>

#include "convoy/base/log.h"
#include "convoy/server/client.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/log_store.h"
#include "server/host/memory.h"
#include "server/host/server.h"
#include "server/service/coordinator_calls.h"
#include "server/service/shard_calls.h"
#include "server/transport/channel.h"
#include "server/transport/grpc_connector.h"
#include "tests/base/patience.h"

namespace convoy::soak {

using namespace convoy::server;  // NOLINT
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBatch = 16, kPortion = 128;

[[noreturn]] void stay() {
  while (true) pause();
}

JobPlan plan_of(const Options& options) {
  JobPlan plan;
  plan.name = "elastic";
  plan.shards = plan.servers = options.servers;
  plan.client_lease_ms = static_cast<std::uint64_t>(kLease.count());
  plan.batch = kBatch;
  plan.portion = kPortion;
  plan.epochs = 1;
  return plan;
}

ClientOptions client_options(const std::string& coordinator, const std::string& name,
                             ClientRole role) {
  ClientOptions options;
  options.coordinator = coordinator;
  options.name = name;
  options.role = role;
  options.log = convoy::Log("", convoy::Log::Level::error);
  return options;
}

}  // namespace

JobDescription description_of(const Options& options) {
  JobDescription description;
  description.model = "elastic";
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    description.vectors.push_back({"counts " + std::to_string(i), kNames, optim::Sgd{.lr = 1}});
  }
  const double pushes =
      options.seconds * options.replicas / std::chrono::duration<double>(kBetween + 20ms).count();
  description.epoch_samples = static_cast<std::uint64_t>(pushes) * kBatch + 5;
  description.data = "none";
  return description;
}

void be_coordinator(const Options& options, const Process::Say& say) {
  const convoy::Log log("coordinator", convoy::Log::Level::warning);
  const auto store = std::make_shared<coordinator::LogStore>(
      std::shared_ptr<Disk>(open_folder(options.folder + "/coordinator")), log);
  coordinator::CoordinatorSettings settings;
  settings.plan = plan_of(options);
  settings.log = log;
  settings.fatal = [](const std::string&) { _exit(1); };
  const coordinator::Coordinator coordinator(store, settings);
  say(coordinator.address());
  stay();
}

void be_server(const Options& options, const std::string& coordinator, std::uint64_t number,
               const Process::Say& say) {
  host::keep_freed_memory();  // as convoy serve does
  host::ServerSettings settings;
  settings.coordinator = coordinator;
  settings.number = number;
  settings.data = options.folder + "/server-" + std::to_string(number);
  settings.snapshot_bytes = settings.segment_bytes = 8 << 20;  // often
  settings.log = convoy::Log("server " + std::to_string(number), convoy::Log::Level::warning);
  settings.fatal = [log = settings.log](const std::string& why) {
    log.error(why);
    _exit(1);
  };
  const host::Server server(settings);
  say(server.address());
  stay();
}

void be_replica(const Options& options, const std::string& coordinator, std::uint64_t name,
                std::uint64_t pushes, const Process::Say& say) {
  const JobDescription description = description_of(options);
  Client client(
      client_options(coordinator, "replica " + std::to_string(name), ClientRole::replica));
  client.join(description);
  std::vector<std::vector<float>> values(options.servers, std::vector<float>(kNames));
  std::vector<float> gradient(kNames);
  gradient[name] = -1;
  std::vector<WriteView> to;
  std::vector<ReadView> from;
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    to.push_back({i, values[i]});
    from.push_back({i, gradient});
  }
  std::vector<std::uint64_t> finished;
  std::uint64_t pushed = 0;
  while (pushed < pushes) {
    const Lease lease = client.lease(finished);
    finished.clear();
    if (lease.kind == Lease::Kind::finished) break;
    if (lease.kind == Lease::Kind::wait) {
      std::this_thread::sleep_for(lease.wait);
      continue;
    }
    const std::uint64_t size = lease.portion.end - lease.portion.begin;
    for (std::uint64_t done = 0; done < size && pushed < pushes;) {
      client.fetch(to);
      std::this_thread::sleep_for(kBetween);
      const std::uint64_t samples = std::min(kBatch, size - done);
      done += samples;
      const std::uint64_t id = id_of(name, ++pushed);
      const PushResult result = client.push(from, samples, {lease.portion.number, done},
                                            client.fetches(), std::span(&id, 1));
      if (result.kind != PushResult::Kind::applied) throw Failure(result.why);
      say("acknowledged");
      client.report({1, samples, 0, 1, 0, 0, 0, 0, 0});
      if (done == size) finished.push_back(lease.portion.number);
    }
  }
  if (!finished.empty()) client.lease(finished);
  client.leave();
  say("left");
}

void be_evaluator(const Options& options, const std::string& coordinator,
                  const std::vector<std::string>& servers, const Process::Say& say) {
  const JobDescription description = description_of(options);
  Client client(client_options(coordinator, "evaluator", ClientRole::evaluator));
  client.describe(description);
  std::vector<std::vector<float>> values(options.servers, std::vector<float>(kNames));
  std::vector<ReadView> from;
  std::vector<WriteView> to;
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    from.push_back({i, values[i]});
    to.push_back({i, values[i]});
  }
  client.initialize(from, {}, 0);
  say("ready");
  JobProgress progress;
  do {
    std::this_thread::sleep_for(500ms);
    progress = client.progress();
    say("progress " + std::to_string(progress.samples) + " " + (progress.all_done ? "1" : "0") +
        " " + std::to_string(progress.replicas));
  } while (!progress.all_done || progress.replicas > 0);
  const Cut cut = client.cut();
  client.fetch_cut(cut, to);
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    for (std::uint64_t name = 0; name < kNames; ++name) {
      if (values[i][name] == 0) continue;
      say("count " + std::to_string(i) + " " + std::to_string(name) + " " +
          std::to_string(static_cast<std::int64_t>(values[i][name])));
    }
  }
  // Any node answers; the primary's is asked for.
  transport::Channel at_coordinator({{std::string(calls::kCoordinator), ""}, "elastic"},
                                    transport::grpc_connector(coordinator));
  const auto job =
      at_coordinator
          .call(std::string(calls::kJob), calls::encode_nothing(), Clock::now() + test::patience())
          .get();
  const calls::JobState state = calls::decode_job_state(job.message);
  for (const std::string& server : servers) {
    transport::Channel channel({{state.id, ""}, "elastic"}, transport::grpc_connector(server));
    for (std::uint32_t shard = 0; shard < options.servers; ++shard) {
      const auto answer = channel
                              .call(std::string(calls::kReport), calls::report_request(shard),
                                    Clock::now() + test::patience())
                              .get();
      if (answer.status != transport::Answer::Status::done) continue;  // it has not this one
      const auto report = calls::decode_report(calls::decode_answered(answer.message).content);
      if (report.primary != report.server) continue;
      std::ostringstream line;
      line << "ledger " << shard << ' ' << report.ledger.count << ' ' << report.ledger.sum << ' '
           << report.ledger.squares;
      say(line.str());
    }
  }
  say("end " + std::to_string(progress.samples) + " " + std::to_string(progress.twice) + " " +
      std::to_string(progress.redone));
  client.end_job("all is done");
}

}  // namespace convoy::soak
