// A training as a child of this process, with what its processes used of the machine.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

struct TrainingEnd {
  int status = 0;        // as waitpid() gives it
  double wall_s = 0;     // from its start to its end
  double cpu_s = 0;      // of all its processes on this host that were waited for
  std::string errors;    // the end of what it said on standard error
  bool stopped = false;  // since this process was told to

  bool good() const;
  // Whether its loss became NaN or infinite.
  bool diverged() const;
  // What a process of its job complained about last, or its own last line, or how it ended.
  std::string complaint() const;
};

// Runs this program with these words and writes what it prints to the file `log`. It is told to
// end when this process is, or is gone. To be called from the main thread, after
// catch_stop_signals(). Throws Failure when it can't be started.
TrainingEnd run_training(const std::vector<std::string>& words, const std::string& log);

}  // namespace convoy::cli
