#include "cli/training/ranks.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <thread>
#include <vector>

#include "cli/checks.h"
#include "cli/join.h"
#include "cli/launch/again.h"
#include "cli/launch/rank_variables.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"

namespace convoy::cli {

void add_rank_options(CLI::App& command, RankOptions& o) {
  command.add_option("-n,--ranks", o.ranks, "Ranks to start; leave out under mpirun or srun")
      ->type_name("N")
      ->check(positive_integer(kMostRanks));
  command.add_option("--hosts", o.hosts, "Where to run: node1:2,node2:2 (ranks per host)")
      ->type_name("LIST");
  command.add_option("--hostfile", o.hostfile, "The same from a file")->type_name("FILE");
  command.add_option("--bind", o.bind, "cores or none; see `convoy run --help`")
      ->type_name("cores|none");
  command.add_option("--logs", o.logs, "Also write the output of each rank to DIR/rank-N.log")
      ->type_name("DIR")
      ->check(writes_folder(kLogsFolder));
  command.add_option("--timeout", o.timeout, "How long an operation may wait for its peers (300)")
      ->type_name("SECONDS");
}

void become_ranks(const RankOptions& o, int threads, std::int64_t partitions) {
  const bool lone = o.ranks > 1 && is_a_lone_task();
  if (is_a_rank() && !lone) return;
  if (lone) forget_task();
  const bool elsewhere = !o.hosts.empty() || !o.hostfile.empty();
  if (o.ranks <= 1 && !elsewhere && o.logs.empty()) return;
  std::vector<std::string> options;
  const auto add = [&options](const char* name, const std::string& value) {
    if (!value.empty()) options.insert(options.end(), {name, value});
  };
  if (o.ranks > 0) add("-n", std::to_string(o.ranks));
  add("--hosts", o.hosts);
  add("--hostfile", o.hostfile);
  add("--bind", o.bind);
  add("--logs", o.logs);
  add("--timeout", o.timeout);
  if (threads > 0) add("--threads", std::to_string(threads));
  if (partitions > 1) add("--partitions", std::to_string(partitions));
  if (o.grace_s > 0) add("--grace", std::to_string(o.grace_s));
  run_again(options);
}

namespace {

// What all ranks meet the first of them says, on a busy host after a while.
constexpr std::chrono::seconds kUntilSaid{10};
// A launcher names the rank that has ended first, and ends the others: half a second later on an
// idle host, and several on a busy one.
constexpr std::chrono::seconds kUntilEnded{10};

[[noreturn]] void leave(const comm::World& world, const std::string& command,
                        const std::exception& error) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) std::signal(signal, SIG_DFL);
  const std::string words = last_words(world, error);
  if (!words.empty()) std::fprintf(stderr, "convoy %s: %s\n", command.c_str(), words.c_str());
  std::fflush(nullptr);
  if (!words.empty()) {
    world.give_up(words);
  } else if (world.size() > 1) {
    std::this_thread::sleep_for(kUntilEnded);
  }
  std::_Exit(exit_status(error));  // not through MPI_Finalize, which would wait for the others
}

}  // namespace

std::string last_words(const comm::World& world, const std::exception& error) {
  const std::string text = message_of(error);
  const std::string failure = world.failure();
  // Whoever finds that the world has failed says so, and all others get that from what they wait
  // for.
  if (!failure.empty() && text.find(failure) != std::string::npos) return "";
  std::string who;
  if (world.rank() > 0) {
    const bool said = !world.is_awaited(kUntilSaid) && failure.empty() && !world.failure().empty();
    if (said) return "";
    who = "rank " + std::to_string(world.rank()) + " on host " + world.host(world.rank()) + ": ";
  }
  return who + printable_lines(text);
}

int in_world(const RankOptions& o, const std::string& command,
             const std::function<int(comm::World&)>& body) {
  comm::World world = join_ranks(o.ranks);
  try {
    const int status = body(world);
    world.close();
    return status;
  } catch (const std::exception& error) {
    leave(world, command, error);
  }
}

}  // namespace convoy::cli
