// Job files of shell scripts.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {

using Lines = std::vector<std::string>;

// A role that runs a script of sh; `more`: further lines of its table.
inline std::string role(const std::string& name, const std::string& script,
                        const std::string& more = "") {
  return "[[role]]\nname = \"" + name + "\"\ncommand = [\"sh\", \"-c\", '''" + script + "''']\n" +
         more + "\n";
}

// A service that says "ready", and until it is stopped does nothing else.
inline std::string service(const std::string& name, const std::string& more = "") {
  return role(name, "trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.02; done",
              "until_done = false\n" + more);
}

// `convoy run` as the command of a role.
inline std::string ranks(const std::string& name, const std::string& arguments) {
  return role(name,
              "exec '" + convoy_program() + "' run -n 2 '" + rank_program() + "' " + arguments);
}

// The arguments for sh to run a program as nohup does, and `&` in a script.
inline Lines ignoring_hangups(const std::string& program, const Lines& arguments) {
  Lines all{"-c", "trap '' HUP INT; exec \"$0\" \"$@\"", program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

// `convoy job` on a file of this text, in a folder for temporary files of its own.
class JobOfRoles {
 public:
  enum class Start { plain, ignoring_hangups };
  explicit JobOfRoles(const std::string& text, std::vector<std::string> variables = {},
                      Start start = Start::plain) {
    std::filesystem::create_directory(temporary());
    test::spill(scratch_.path("mine.toml"), text);
    variables.push_back("TMPDIR=" + temporary());
    variables.push_back("HERE=" + scratch_.path());
    const Lines arguments{scratch_.path("mine.toml")};
    if (start == Start::plain)
      job_.emplace(arguments, variables, job_program());
    else
      job_.emplace(ignoring_hangups(job_program(), arguments), variables, "/bin/sh");
  }

  Job* operator->() { return &*job_; }
  Job& operator*() { return *job_; }
  // $HERE of the scripts.
  std::string path(const std::string& name) const { return scratch_.path(name); }
  // Where the job's folder is.
  std::string temporary() const { return scratch_.path("tmp"); }

 private:
  test::Scratch scratch_;
  std::optional<Job> job_;
};

// The end of a job, which leaves nothing.
inline JobResult end_of(JobOfRoles& job) {
  JobResult result = job->finish();
  EXPECT_GE(job->wait_until_gone(), 0) << "a process is left";
  EXPECT_EQ(test::entries(job.temporary()), 0u);
  return result;
}

inline JobResult run(const std::string& text, const Lines& variables = {}) {
  JobOfRoles job(text, variables);
  return end_of(job);
}

// What holds now may not hold any more when it is asked for again: processes come and go.
template <class Condition>
void wait_until(const Condition& holds) {
  const auto begin = Clock::now();
  bool held = holds();
  while (!held && seconds_since(begin) < test::patience_s()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    held = holds();
  }
  EXPECT_TRUE(held);
}

inline Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace convoy::cli
