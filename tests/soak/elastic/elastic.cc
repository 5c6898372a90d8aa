// Replicas that join and leave a job at random, in order and by SIGKILL, or stand still for longer
// than their lease, while a coordinator and servers with backups go on.
//
//   elastic [--seconds 600] [--replicas 24] [--servers 3] [--seed 1] [--folder DIR]
//
// All are processes of their own. Replica number r pushes, to each shard, a gradient that moves
// element r of the shard's vector by one and nothing else, under an id of its own in the ledger,
// and says so when the push is acknowledged. At the end, on every shard:
//   - element r is the number of its acknowledged pushes; one more at most where it was killed or
//     taken for dead while it pushed;
//   - the ledger is that of exactly these pushes: each is in the values once;
//   - all samples are done, each counted once;
// and the servers' memory has not grown since a quarter of the samples was done. One line says what
// was found; the exit status is 1 if any of this was not so.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "convoy/base/random.h"
#include "server/state/shard_data.h"
#include "tests/base/patience.h"
#include "tests/soak/elastic/roles.h"

namespace {

using namespace convoy;        // NOLINT
using namespace convoy::soak;  // NOLINT
using namespace std::chrono_literals;
using server::Ledger;

// Bytes in memory, as the kernel counts them.
std::uint64_t resident(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

struct Replica {
  std::uint64_t name = 0;
  std::unique_ptr<Process> process;
  enum class Fate { leaves, killed, paused } fate = Fate::leaves;
  Clock::time_point at;  // then
  bool is_paused = false;
};

struct Known {  // of a replica, that was or is
  std::uint64_t acknowledged = 0;
  bool exact = false;  // it left in order
};

class Soak {
 public:
  explicit Soak(Options options) : options_(std::move(options)), random_(options_.seed, 0) {}

  int run() {
    const auto began = Clock::now();
    coordinator_.emplace([&](const auto& say) { be_coordinator(options_, say); });
    address_ = coordinator_->line();
    for (std::uint64_t number = 1; number <= options_.servers; ++number) {
      servers_.push_back(std::make_unique<Process>(
          [&](const auto& say) { be_server(options_, address_, number, say); }));
    }
    std::vector<std::string> addresses;
    for (const auto& server : servers_) addresses.push_back(server->line());
    evaluator_.emplace([&](const auto& say) { be_evaluator(options_, address_, addresses, say); });
    if (const auto line = evaluator_->line(); line != "ready") throw Failure(line);
    const std::uint64_t all = description_of(options_).epoch_samples;
    const auto deadline =
        began + std::chrono::duration<double>(test::patience_s() + 10 * options_.seconds);
    while (!over_) {
      if (Clock::now() > deadline) throw Failure("it does not end");
      if (!all_done_) begin_replicas();
      look_after_replicas();
      listen_to_evaluator();
      if (before_.empty() && samples_ >= all / 4) before_ = memory();
      for (const auto& server : servers_) {
        if (server->ended() || !server->lines(0ms).empty()) throw Failure("a server has ended");
      }
    }
    const auto after = memory();
    return judge(all, after, std::chrono::duration<double>(Clock::now() - began).count());
  }

 private:
  double uniform() { return static_cast<double>(random_.below(1 << 20)) / (1 << 20); }

  void begin_replicas() {
    while (replicas_.size() < options_.replicas && next_name_ < kNames) {
      // Now and then fewer.
      if (!replicas_.empty() && uniform() < 0.7) return;
      Replica replica;
      replica.name = next_name_++;
      const double life = 1 + uniform() * std::min(20.0, options_.seconds / 2);
      const auto pushes = static_cast<std::uint64_t>(life / 0.08);
      const double chance = uniform();
      replica.fate = chance < 0.4   ? Replica::Fate::killed
                     : chance < 0.5 ? Replica::Fate::paused
                                    : Replica::Fate::leaves;
      replica.at =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(life * (0.1 + 0.8 * uniform())));
      const std::uint64_t name = replica.name;
      const bool stays = replica.fate != Replica::Fate::leaves;
      replica.process = std::make_unique<Process>([&](const auto& say) {
        be_replica(options_, address_, name, stays ? UINT64_MAX : pushes, say);
      });
      replicas_.push_back(std::move(replica));
    }
  }

  void take(Replica& replica, std::chrono::milliseconds patience) {
    for (const std::string& line : replica.process->lines(patience)) {
      Known& known = known_[replica.name];
      if (line == "acknowledged") {
        ++known.acknowledged;
      } else if (line == "left") {
        known.exact = true;
        ++left_;
      } else if (line.find("taken for dead") != std::string::npos) {
        ++taken_for_dead_;  // and says so; a machine may be too busy for one that wasn't paused
      } else {
        throw Failure("replica " + std::to_string(replica.name) + ": " + line);
      }
    }
  }

  void look_after_replicas() {
    for (Replica& replica : replicas_) {
      known_[replica.name];
      take(replica, 0ms);
      if (Clock::now() < replica.at || replica.process->ended() || all_done_) continue;
      if (replica.fate == Replica::Fate::killed) {
        replica.process->send(SIGKILL);
        ++killed_;
        while (!replica.process->ended()) take(replica, 1000ms);  // what it said before
      } else if (replica.fate == Replica::Fate::paused) {
        replica.process->send(replica.is_paused ? SIGCONT : SIGSTOP);
        replica.at = Clock::now() + (replica.is_paused ? 1h : 2 * kLease);
        replica.is_paused = true;
      }
    }
    // A pause that the end of the work came into.
    if (all_done_) {
      for (Replica& replica : replicas_) replica.process->send(SIGCONT);
    }
    std::erase_if(replicas_, [](const Replica& replica) { return replica.process->ended(); });
  }

  void listen_to_evaluator() {
    for (const std::string& line : evaluator_->lines(20ms)) {
      std::istringstream words(line);
      std::string kind;
      words >> kind;
      std::uint32_t shard = 0;
      if (kind == "progress") {
        words >> samples_ >> all_done_ >> members_;
        std::fprintf(stderr, "%s, %zu processes, %" PRIu64 " so far\n", line.c_str(),
                     replicas_.size(), next_name_);
      } else if (kind == "count") {
        std::uint64_t name = 0;
        words >> shard >> name;
        words >> counts_[shard][name];
      } else if (kind == "ledger") {
        words >> shard;
        Ledger& ledger = ledgers_[shard];
        words >> ledger.count >> ledger.sum >> ledger.squares;
      } else if (kind == "end") {
        words >> samples_ >> twice_ >> redone_;
        over_ = true;
      } else {
        throw Failure("evaluator: " + line);
      }
    }
    if (evaluator_->ended() && !over_) throw Failure("the evaluator has ended");
  }

  std::vector<std::uint64_t> memory() const {
    std::vector<std::uint64_t> bytes;
    for (const auto& server : servers_) bytes.push_back(resident(server->pid()));
    return bytes;
  }

  int judge(std::uint64_t all, const std::vector<std::uint64_t>& after, double seconds) {
    int wrong = 0;
    const auto say = [&](const std::string& what) {
      std::printf("WRONG: %s\n", what.c_str());
      ++wrong;
    };
    if (samples_ != all) {
      say(std::to_string(samples_) + " samples are done of " + std::to_string(all));
    }
    std::uint64_t acknowledged = 0;
    for (const auto& [name, known] : known_) acknowledged += known.acknowledged;
    for (std::uint32_t shard = 0; shard < options_.servers; ++shard) {
      Ledger expected;
      for (const auto& [name, known] : known_) {
        const std::uint64_t applied = counts_[shard].contains(name) ? counts_[shard][name] : 0;
        const std::uint64_t more = known.exact ? 0 : 1;
        if (applied < known.acknowledged || applied > known.acknowledged + more) {
          say("shard " + std::to_string(shard) + " has " + std::to_string(applied) +
              " pushes of replica " + std::to_string(name) + ", which has " +
              std::to_string(known.acknowledged) + " acknowledged ones");
        }
        for (std::uint64_t push = 1; push <= applied; ++push) expected.add(id_of(name, push));
      }
      if (!ledgers_.contains(shard) || !(ledgers_[shard] == expected)) {
        say("the ledger of shard " + std::to_string(shard) + " is not that of its pushes");
      }
    }
    for (std::size_t i = 0; i < after.size(); ++i) {
      std::printf("server %zu: %.1f MiB in memory after a quarter, %.1f MiB at the end\n", i + 1,
                  static_cast<double>(before_.empty() ? 0 : before_[i]) / (1 << 20),
                  static_cast<double>(after[i]) / (1 << 20));
      // Allocators keep some; a leak of ten minutes would be far more.
      if (!before_.empty() && after[i] > before_[i] + before_[i] / 4 + (16 << 20)) {
        say("the memory of server " + std::to_string(i + 1) + " has grown");
      }
    }
    std::printf("%.0f s: %" PRIu64 " replicas, %" PRIu64 " left in order, %" PRIu64
                " killed, %" PRIu64 " taken for dead; %" PRIu64
                " acknowledged pushes on %u shards; "
                "%" PRIu64 " samples, %" PRIu64 " portions given out again, %" PRIu64
                " samples used twice; %s\n",
                seconds, next_name_, left_, killed_, taken_for_dead_, acknowledged,
                options_.servers, samples_, redone_, twice_,
                wrong == 0 ? "each push is in the values once" : "WRONG, see above");
    return wrong == 0 ? 0 : 1;
  }

  const Options options_;
  RandomStream random_;
  std::optional<Process> coordinator_, evaluator_;
  std::string address_;
  std::vector<std::unique_ptr<Process>> servers_;
  std::vector<Replica> replicas_;
  std::map<std::uint64_t, Known> known_;
  std::uint64_t next_name_ = 0, left_ = 0, killed_ = 0, taken_for_dead_ = 0;
  std::uint64_t samples_ = 0, twice_ = 0, redone_ = 0, members_ = 0;
  bool all_done_ = false, over_ = false;
  std::map<std::uint32_t, std::map<std::uint64_t, std::uint64_t>> counts_;
  std::map<std::uint32_t, Ledger> ledgers_;
  std::vector<std::uint64_t> before_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Replicas that join and leave a job at random");
  Options options;
  app.add_option("--seconds", options.seconds, "About")->check(CLI::Range(1.0, 86400.0));
  app.add_option("--replicas", options.replicas, "At once at most")->check(CLI::Range(1, 1000));
  app.add_option("--servers", options.servers, "And shards")->check(CLI::Range(2, 64));
  app.add_option("--seed", options.seed, "Of what happens when");
  app.add_option("--folder", options.folder, "Where servers write; a new one that is removed");
  CLI11_PARSE(app, argc, argv);
  std::string made;
  if (options.folder.empty()) {
    made = (std::filesystem::temp_directory_path() / "convoy-elastic-XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr) return 1;
    options.folder = made;
  }
  int status = 1;
  try {
    status = Soak(options).run();
  } catch (const std::exception& error) {
    std::printf("WRONG: %s\n", error.what());
  }
  std::error_code ignored;
  if (!made.empty()) std::filesystem::remove_all(made, ignored);
  return status;
}
