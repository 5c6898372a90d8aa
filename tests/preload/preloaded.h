// Runs programs with libconvoy_mpi.so preloaded, and reads what it says of itself.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <ostream>
#include <string>

#include "tests/base/patience.h"

namespace convoy::test {

struct Result {
  int exit_status = -1;
  std::string output;  // both streams
};

inline Result run(const std::string& command) {
  Result result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

// In front of a rank's program: one that hangs is ended, with status 124.
inline const std::string kUntilItHangs = " timeout " + std::to_string(patience().count()) + " ";

// `variables` come after LD_PRELOAD; each rank gets the same.
inline Result preloaded(int ranks, const std::string& program, const std::string& variables = "") {
  return run(CONVOY_MPIRUN " -n " + std::to_string(ranks) + kUntilItHangs +
             "env " SANITIZER_OPTIONS " CONVOY_MPI_VERBOSE=1 CONVOY_MPI_AFTER=0 " + variables +
             " LD_PRELOAD=" LIBRARY " " + program);
}

// Parts of a job, each with its own ranks, with or without the library.
inline std::string part(int ranks, bool with, const std::string& program) {
  return " -n " + std::to_string(ranks) + kUntilItHangs + "env " SANITIZER_OPTIONS +
         (with ? " CONVOY_MPI_VERBOSE=1 CONVOY_MPI_AFTER=0 LD_PRELOAD=" LIBRARY " " : " ") +
         program;
}

inline int times(const std::string& output, const std::string& text) {
  int found = 0;
  for (std::size_t at = 0; (at = output.find(text, at)) != output.npos; ++at) ++found;
  return found;
}

inline Result alone(int ranks, const std::string& program) {
  return run(CONVOY_MPIRUN " -n " + std::to_string(ranks) + kUntilItHangs + program);
}

inline const std::string kProgram = PROGRAM " ";

struct Counts {
  int calls = -1, taken = -1, by_rule = -1, early = -1, others = -1;
  bool operator==(const Counts&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.calls << " calls, " << c.taken << " taken, left: " << c.by_rule << " by rules, "
             << c.early << " too early, " << c.others << " others";
}

// What rank 0 says at the end.
inline Counts counts_in(const std::string& output) {
  Counts counts;
  const std::size_t at = output.find("on rank 0: of ");
  if (at == output.npos) return counts;
  std::sscanf(output.c_str() + at,
              "on rank 0: of %d calls of MPI_Allreduce %d taken over (%*[^)]); left to MPI: %d by "
              "the rules, %d too early, %d others",
              &counts.calls, &counts.taken, &counts.by_rule, &counts.early, &counts.others);
  return counts;
}

}  // namespace convoy::test
