// A row of a benchmark that needs a process of its own, since what it switches is per process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/line_channel.h"

namespace convoy::cli {

// What a row answers when asked for steps.
struct RowAnswer {
  double seconds = 0;
  std::vector<double> losses;  // one per step
  std::string torch = {};      // the version of PyTorch or LibTorch, where it is said
};

// Reads an answer, {"seconds": s, "losses": [...]}, and "torch" if it is there. Throws Failure
// naming the row where it is none, or says why there is none: {"error": "..."}.
RowAnswer parse_row_answer(const std::string& row, const std::string& text);

inline constexpr std::chrono::minutes kRowPatience{10};

// Names and values.
using RowEnvironment = std::vector<std::pair<std::string, std::string>>;

// Runs a program that waits between measurements, so that several rows can be alternated. The
// program reads lines on standard input, each a number of steps, does them, and answers each with
// one line on standard output (parse_row_answer); it ends at the end of its input.
class RowProcess {
 public:
  // `command` is the program (looked up in PATH) and its arguments. `environment` is set in
  // addition to this process's own. It may run on `cores` alone, if there are any. Throws Failure
  // if it can't be started.
  RowProcess(std::string row, const std::vector<std::string>& command,
             const RowEnvironment& environment, const std::vector<int>& cores = {});
  // Closes the program's input and waits; tells it to end (SIGTERM) if it stays longer than 30
  // seconds, and kills it ten seconds later.
  ~RowProcess();
  RowProcess(const RowProcess&) = delete;
  RowProcess& operator=(const RowProcess&) = delete;

  // Asks for steps, and waits for the answer. Throws as answer() does.
  RowAnswer run(int steps);

  void ask(int steps);
  // Throws Failure naming the row when the program ends, answers something else, or takes longer
  // than that.
  RowAnswer answer(std::chrono::minutes patience = kRowPatience);

  // Closes its input, so that several programs end beside each other. Nothing is asked after it.
  void close() { channel_.close(); }
  // Kills the program, of which nothing is expected any more.
  void give_up();

  // The descriptor of the program's output, at the end of which nothing of it is left.
  int output() const { return channel_.reading(); }
  // Waits for the program's end as the destructor does, and throws a Failure that says how it ended
  // when it should have answered.
  [[noreturn]] void tell_end();

 private:
  int wait_for_end();

  std::string row_;
  std::string program_;
  pid_t pid_ = -1;
  LineChannel channel_;
};

}  // namespace convoy::cli
