// A row of a benchmark that needs a process of its own, since what it switches is per process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

// What a row answers when asked for steps.
struct RowAnswer {
  double seconds = 0;
  std::vector<double> losses;  // one per step
};

// Runs a program that waits between measurements, so that several rows can be alternated. The
// program reads lines on standard input, each a number of steps, does them, and answers each with
// one line
// {"seconds": s, "losses": [...]} on standard output; it ends at the end of its input.
class RowProcess {
 public:
  // `command` is the program (looked up in PATH) and its arguments. `environment` is set in
  // addition to this process's own. Throws Failure if it can't be started.
  RowProcess(std::string row, const std::vector<std::string>& command,
             const std::vector<std::pair<std::string, std::string>>& environment);
  // Closes the program's input and waits; kills it if it stays longer than 10 seconds.
  ~RowProcess();
  RowProcess(const RowProcess&) = delete;
  RowProcess& operator=(const RowProcess&) = delete;

  // Throws Failure naming the row when the program ends, answers something else, or takes longer
  // than ten minutes.
  RowAnswer run(int steps);

 private:
  std::string read_line();

  std::string row_;
  std::string program_;
  pid_t pid_ = -1;
  Descriptor to_;    // its standard input
  Descriptor from_;  // its standard output
  std::string pending_;
};

}  // namespace convoy::cli
