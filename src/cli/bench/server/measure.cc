#include "cli/bench/server/measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "cli/bench/server/echo.h"
#include "cli/bench/server/job.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/server/client.h"

namespace convoy::cli {
namespace {

// One push moves each value by this, so that sums of them are exact.
constexpr double kRate = 1.0 / 1024;
constexpr std::size_t kBytesOfRepetition = std::size_t{256} << 20;  // about, of one client
constexpr std::size_t kMostRounds = 300, kLeastRounds = 2;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

server::JobDescription description_of(std::size_t bytes) {
  server::JobDescription description;
  description.model = "bench";
  description.vectors = {{"values", bytes / sizeof(float), optim::Sgd{.lr = kRate}}};
  description.epoch_samples = 1;
  description.data = "none";
  return description;
}

// Gradients of one, and what is fetched.
struct Memory {
  explicit Memory(std::size_t bytes) : from(bytes / sizeof(float), 1.0F), to(from.size()) {}
  std::vector<float> from, to;
};

// A client's way to exchange bytes once; seconds of its push and its fetch.
using Times = std::pair<double, double>;
using Exchange = std::function<Times(Memory&)>;

Exchange echo(int port) {
  return [client = std::make_shared<EchoClient>(port)](Memory& memory) {
    client->exchange(std::as_bytes(std::span(memory.from)),
                     std::as_writable_bytes(std::span(memory.to)));
    return Times{};
  };
}

std::shared_ptr<server::Client> client_of(const std::string& coordinator, bool shared,
                                          server::ClientRole role) {
  server::ClientOptions options;
  options.coordinator = coordinator;
  options.name = shared ? "bench, shared memory" : "bench, TCP";
  options.role = role;
  options.shared_memory = shared;
  options.log = Log("", Log::Level::error);
  return std::make_shared<server::Client>(std::move(options));
}

Exchange replica(const std::string& coordinator, const server::JobDescription& description,
                 bool shared) {
  auto client = client_of(coordinator, shared, server::ClientRole::replica);
  client->join(description);
  return [client, first = true](Memory& memory) mutable {
    if (std::exchange(first, false)) {
      const server::WriteView to{0, memory.to};
      client->fetch(std::span(&to, 1));
    }
    const server::ReadView from{0, memory.from};
    const auto start = Clock::now();
    const server::PushResult pushed = client->push(std::span(&from, 1), 1, {}, client->fetches());
    if (pushed.kind != server::PushResult::Kind::applied) throw Failure("push: " + pushed.why);
    const double push = seconds_since(start);
    const server::WriteView to{0, memory.to};
    client->fetch(std::span(&to, 1));
    return Times{push, seconds_since(start) - push};
  };
}

// Each client in a thread of its own, all at once.
void repeat(std::vector<Exchange>& exchanges, std::vector<Memory>& memories, int clients,
            std::size_t rounds, ServerFigures& figures) {
  std::mutex mutex;
  std::exception_ptr error;
  Clock::time_point start;
  std::barrier begin(clients, [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> threads;
  double last = 0;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(i);
      std::vector<double> whole;
      std::vector<Times> parts;
      begin.arrive_and_wait();
      try {
        for (std::size_t round = 0; round < rounds; ++round) {
          const auto before = Clock::now();
          parts.push_back(exchanges[at](memories[at]));
          whole.push_back(seconds_since(before));
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      last = std::max(last, seconds_since(start));
      figures.exchanges.insert(figures.exchanges.end(), whole.begin(), whole.end());
      for (const auto& [push, fetch] : parts) {
        if (figures.way == Way::echo) continue;
        figures.pushes.push_back(push);
        figures.fetches.push_back(fetch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  figures.rates.push_back(2.0 * static_cast<double>(memories[0].from.size() * sizeof(float)) *
                          static_cast<double>(rounds) * clients / last);
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::echo:
      return "echo";
    case Way::tcp:
      return "tcp";
    case Way::shared:
      return "shared";
  }
  return "";
}

const char* name_of(Safety safety) {
  switch (safety) {
    case Safety::none:
      return "none";
    case Safety::replicated:
      return "replicated";
    case Safety::synced:
      return "synced";
  }
  return "";
}

server::JobPlan plan_of(const ServerBench& bench) {
  server::JobPlan plan;
  plan.name = "bench";
  plan.shards = bench.shards;
  plan.backups = bench.safety != Safety::none;
  plan.log = plan.backups;
  plan.synced = bench.safety == Safety::synced;
  plan.servers = std::max<std::uint32_t>(bench.shards, plan.backups ? 2 : 1);
  plan.epochs = 1;
  return plan;
}

std::vector<ServerFigures> measure_server(const ServerBench& bench) {
  const Child echo_process = Child::server([] {
    const auto* server = new EchoServer;  // as long as the process
    return std::to_string(server->port());
  });
  const BenchJob job(plan_of(bench), bench.folder);  // from here on there are threads
  const int port = std::stoi(const_cast<Child&>(echo_process).ready());

  const server::JobDescription description = description_of(bench.bytes);
  const std::size_t values = description.vectors[0].elements;
  {
    const auto evaluator = client_of(job.coordinator(), true, server::ClientRole::evaluator);
    evaluator->describe(description);
    const std::vector<float> zeros(values);
    const server::ReadView view{0, zeros};
    evaluator->initialize(std::span(&view, 1), {}, 0);
  }
  const int most = *std::max_element(bench.clients.begin(), bench.clients.end());
  std::vector<Memory> memories;
  std::vector<std::pair<Way, std::vector<Exchange>>> ways{{Way::echo, {}}};
  for (const Way way : bench.ways) ways.emplace_back(way, std::vector<Exchange>{});
  for (int i = 0; i < most; ++i) {
    memories.emplace_back(bench.bytes);
    for (auto& [way, exchanges] : ways) {
      exchanges.push_back(way == Way::echo
                              ? echo(port)
                              : replica(job.coordinator(), description, way == Way::shared));
    }
  }
  const std::size_t rounds =
      std::clamp(kBytesOfRepetition / (bench.bytes + 1), kLeastRounds, kMostRounds);
  std::vector<ServerFigures> all;
  std::size_t pushes = 0;
  for (const int clients : bench.clients) {
    const std::size_t first = all.size();
    for (auto& [way, exchanges] : ways) {
      all.push_back({clients, way, {}, {}, {}, {}});
      ServerFigures warm = all.back();
      repeat(exchanges, memories, clients, 1, warm);
      pushes += warm.pushes.size();
    }
    for (int repetition = 0; repetition < bench.repetitions; ++repetition) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        repeat(ways[i].second, memories, clients, rounds, all[first + i]);
      }
    }
    for (std::size_t i = first; i < all.size(); ++i) pushes += all[i].pushes.size();
  }
  // Nothing was left out.
  const auto last = replica(job.coordinator(), description, false);
  last(memories[0]);
  const auto expected = static_cast<float>(-kRate * static_cast<double>(pushes + 1));
  const auto& to = memories[0].to;
  if (std::any_of(to.begin(), to.end(), [&](float value) { return value != expected; })) {
    throw Failure("the parameters are not the sum of what was pushed");
  }
  return all;
}

}  // namespace convoy::cli
