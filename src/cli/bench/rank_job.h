// Ranks that mpirun starts, and that take turns with other rows of a benchmark.
//
// mpirun hands its own standard input to rank 0 alone, and ranks that wait for that one inside MPI
// would keep a core busy. So each has a socket to the benchmark's process, in a folder that both
// see, and sleeps in read(2) between turns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench/line_channel.h"
#include "cli/bench/row_process.h"

namespace convoy::cli {

// What a rank says of itself when it is ready.
struct RankPlace {
  int rank = 0;
  std::vector<int> cores;  // that it may run on
  int threads = 0;         // that it computes with
};

// In the process of the benchmark.
class RankJob {
 public:
  // Starts `command`, a program whose processes are the ranks or that starts them, and waits until
  // each of them has called join_turns() with this folder. `row` stands in messages. Throws Failure
  // where the program ends before, or they are not there within ten minutes.
  RankJob(std::string row, const std::vector<std::string>& command,
          const RowEnvironment& environment, int ranks, const std::string& folder);

  // By rank.
  const std::vector<RankPlace>& places() const { return places_; }
  // Has all ranks make so many steps, and gives their answers by rank. Throws Failure as
  // RowProcess::run does.
  std::vector<RowAnswer> run(int steps);

 private:
  void welcome(int listener, Clock::time_point deadline);

  std::string row_;
  std::optional<RowProcess> process_;
  std::vector<LineChannel> channels_;  // by rank; closed before the program is waited for
  std::vector<RankPlace> places_;
};

// In a rank: the lines of the benchmark that waits in this folder, each a number of steps, which
// are answered as RowProcess has it; they end when the benchmark does. Throws Failure where none
// waits.
LineChannel join_turns(const std::string& folder, const RankPlace& place);

}  // namespace convoy::cli
