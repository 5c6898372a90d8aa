#include "convoy/comm/world.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/collectives/barrier/barrier.h"
#include "comm/collectives/reproducible/agreement.h"
#include "comm/engine/engine.h"
#include "comm/engine/quiet_thread.h"
#include "comm/engine/reserved.h"
#include "comm/internals.h"
#include "comm/world/cores.h"
#include "comm/world/group.h"
#include "comm/world/turns.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/comm/threads.h"

namespace convoy::comm {
namespace {

// Thirty years: what a clock in nanoseconds can be moved by.
constexpr std::chrono::duration<double> kLongestTimeout{1e9};

WorldOptions complete(WorldOptions options) {
  if (!(options.timeout.count() > 0)) {  // not a number, too
    const std::string text = environment("CONVOY_TIMEOUT", "300");
    char* rest = nullptr;
    const double seconds = std::strtod(text.c_str(), &rest);
    if (*rest != '\0' || !(seconds > 0)) {
      throw UsageError("the environment variable CONVOY_TIMEOUT is '" + text +
                       "'; it must be a number of seconds above 0");
    }
    options.timeout = std::chrono::duration<double>(seconds);
  }
  options.timeout = std::min(options.timeout, kLongestTimeout);
  if (environment("CONVOY_CHECK_CALLS", "0") != "0") options.check_calls = true;
  if (environment("CONVOY_REPRODUCIBLE", "0") != "0") options.reproducible = true;
  return options;
}

// The rules in a file, or '@' and why it can't be read: all ranks then leave alike.
std::string read_rules(const std::string& path) {
  try {
    return read_text_file(path, 1 << 20);
  } catch (const std::exception& e) {
    return "@" + message_of(e);
  }
}

}  // namespace

struct World::Impl {
  WorldOptions options;
  std::shared_ptr<Engine> engine;
  Communicator communicator;
  std::vector<std::string> hosts;
  int local_rank = 0;
  int local_size = 1;
  int cores = 1;
  Log log;
  std::function<void()> on_close;
  bool open = true;
  int exceptions = std::uncaught_exceptions();
};

World::World(std::unique_ptr<Transport> transport, WorldOptions options,
             std::function<void()> on_close)
    : impl_(std::make_unique<Impl>()) {
  Impl& w = *impl_;
  w.options = complete(options);
  w.on_close = std::move(on_close);
  std::shared_ptr<Transport> shared = std::move(transport);
  Engine::Options engine_options;
  engine_options.timeout = w.options.timeout;
  engine_options.check_calls = w.options.check_calls;
  engine_options.progress_thread = shared->size() > 1 && w.options.progress == Progress::thread;
  const bool from_environment = w.options.allreduce.empty();
  if (from_environment) w.options.allreduce = environment("CONVOY_ALLREDUCE");
  if (w.options.allreduce.starts_with('@'))
    w.options.allreduce = read_rules(w.options.allreduce.substr(1));
  Group group = create_group(shared, engine_options,
                             (w.options.reproducible ? "1" : "0") + w.options.allreduce);
  w.engine = std::move(group.engine);
  w.communicator = std::move(group.communicator);
  w.hosts = std::move(group.hosts);
  std::vector<bool> reproducible;
  std::vector<std::string> selections;
  for (const std::string& remark : group.remarks) {
    reproducible.push_back(remark[0] == '1');
    selections.push_back(remark.substr(1));
  }
  w.cores = share_of_cores(rank(), w.hosts, group.cores);
  try {
    const std::string source =
        from_environment ? "the environment variable CONVOY_ALLREDUCE" : "WorldOptions::allreduce";
    for (std::size_t rank = 0; rank < selections.size(); ++rank) {
      if (selections[rank].starts_with('@'))
        throw UsageError(source + ", rank " + std::to_string(rank) + ": " +
                         selections[rank].substr(1));
    }
    for (const std::string& difference :
         {difference_of_selections(selections, source),
          difference_of_reproducible(
              reproducible,
              "WorldOptions::reproducible or the environment variable CONVOY_REPRODUCIBLE")}) {
      if (!difference.empty()) throw UsageError(difference);
    }
    w.engine->set_reproducible(w.options.reproducible);
    w.engine->set_selection(AllreduceSelection(w.options.allreduce, source));
  } catch (const UsageError&) {
    // All ranks get here, so they can leave in good order.
    shared.reset();
    close();
    throw;
  }
  CommunicatorInternals::locate(w.communicator, w.hosts);
  w.local_size = 0;
  for (int rank = 0; rank < size(); ++rank) {
    if (host(rank) != host(this->rank())) continue;
    if (rank < this->rank()) ++w.local_rank;
    ++w.local_size;
  }
  const std::string& problem = CommunicatorInternals::locality(w.communicator).problem;
  if (!problem.empty() && rank() == 0) {
    std::fprintf(stderr,
                 "convoy: ranks of one host share no memory and use messages instead, which is "
                 "slower (%s)\n",
                 problem.c_str());
  }
  w.log = Log(size() > 1 ? "rank " + std::to_string(rank()) + " " + host(rank()) : "");
}

World::World(World&&) noexcept = default;

World::~World() {
  if (!impl_ || !impl_->open) return;
  Impl& w = *impl_;
  // An exception on its way through main, or a failure that the program has swallowed: the others
  // can't go on without this rank, and a barrier would never end.
  const bool unwinding = std::uncaught_exceptions() > w.exceptions;
  std::string reason = w.engine->failure();
  if (!unwinding && reason.empty()) {
    try {
      close();
      return;
    } catch (const std::exception& e) {
      reason = e.what();
    }
  } else if (reason.empty()) {
    reason = "rank " + std::to_string(rank()) + " on host " + host(rank()) +
             " was ended by an exception";
    w.engine->give_up(reason);
  }
  w.engine->stop();
  const std::shared_ptr<Engine> engine = w.engine;
  if (!engine->root().abort_ends_process()) {
    engine->root().abort(reason);
    return;
  }
  // Whoever catches the exception knows more than this destructor: time to print it. The program
  // may not go on without its world, though.
  quiet_thread([engine, reason] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    engine->root().abort(reason);
  }).detach();
}

int World::rank() const { return impl_->communicator.rank(); }
int World::size() const { return impl_->communicator.size(); }
int World::local_rank() const { return impl_->local_rank; }
int World::local_size() const { return impl_->local_size; }
int World::cores() const { return impl_->cores; }
const std::string& World::host(int rank) const {
  return impl_->hosts.at(static_cast<std::size_t>(rank));
}
double World::communication_seconds() const { return impl_->engine->busy_seconds(); }
const Communicator& World::communicator() const { return impl_->communicator; }
const Log& World::log() const { return impl_->log; }
const WorldOptions& World::options() const { return impl_->options; }

void World::fail(const std::string& reason) const {
  const std::string line =
      "rank " + std::to_string(rank()) + " on host " + host(rank()) + ": " + reason;
  std::fprintf(stderr, "convoy: %s\n", line.c_str());
  impl_->engine->root().abort(line);
  throw Failure(line);
}

std::string World::failure() const {
  return impl_->engine == nullptr ? "" : impl_->engine->failure();
}

void World::give_up(const std::string& reason) const {
  const std::shared_ptr<Engine>& engine = impl_->engine;
  if (engine == nullptr) return;
  engine->give_up(reason, false);
  // Who ends next takes along what MPI has not sent yet.
  constexpr auto kUntilSent = std::chrono::milliseconds(200), kPause = std::chrono::milliseconds(5);
  const auto until = Clock::now() + kUntilSent;
  while (size() > 1 && Clock::now() < until) {
    engine->exclusively([&engine] { engine->root().make_progress(); });
    std::this_thread::sleep_for(kPause);
  }
}

bool World::is_awaited(std::chrono::duration<double> patience) const {
  if (impl_->engine == nullptr || size() == 1) return false;
  return impl_->engine->is_awaited(
      std::chrono::duration_cast<Clock::duration>(std::min(patience, kLongestTimeout)));
}

void World::close() {
  Impl& w = *impl_;
  if (!w.open) return;
  w.engine->close(make_own_call(Kind::barrier, {}, reserved::kClosing),
                  [](Io& io) { return barrier_dissemination(io); });
  w.engine->stop();
  w.open = false;
  w.communicator = Communicator();
  w.engine.reset();
  if (w.on_close) w.on_close();
}

void World::run_threads(int ranks, const std::function<void(World&)>& body, WorldOptions options) {
  if (ranks < 1) throw UsageError("a world needs at least 1 rank, not " + std::to_string(ranks));
  auto transports = thread_transports(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, transport = std::move(transport)]() mutable {
      ask_for_short_turns();
      try {
        World world(std::move(transport), options);
        body(world);
        world.close();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace convoy::comm
