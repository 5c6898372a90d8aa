// What a parameter server's pushes and fetches cost beside an echo of the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/server/child.h"
#include "convoy/server/job.h"

namespace convoy::cli {

enum class Way { echo, tcp, shared };
enum class Safety { none, replicated, synced };  // recipes' durability, and nothing of it

const char* name_of(Way way);
const char* name_of(Safety safety);

struct ServerBench {
  std::size_t bytes = 0;     // of the parameters: what a push carries, and a fetch
  std::vector<int> clients;  // at once
  std::vector<Way> ways;     // besides the echo
  Safety safety = Safety::none;
  std::uint32_t shards = 1;
  int repetitions = 5;
  std::string folder;  // for logs, if there are any
};

// Of a number of clients and one way: a push and then a fetch, or the echo of as many bytes.
struct ServerFigures {
  int clients = 1;
  Way way = Way::echo;
  std::vector<double> rates;      // of each repetition: bytes there and back of all clients, per s
  std::vector<double> exchanges;  // seconds, each
  std::vector<double> pushes, fetches;  // seconds, each; none of the echo
};

// The job that is measured.
server::JobPlan plan_of(const ServerBench& bench);

// Starts an echo and a job (coordinator and servers, as processes of their own), measures by turns,
// and ends them. REQUIRES: one thread.
std::vector<ServerFigures> measure_server(const ServerBench& bench);

}  // namespace convoy::cli
