// Jobs with strategy "downpour", with scripts in place of their processes.
#pragma once

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>

#include "tests/cli/job_script.h"

namespace convoy::cli {

namespace fs = std::filesystem;

// Notes how it was started, once it hears signals. Each role does what $HERE/ROLE says ("exit 3"),
// a line for each start, and when there is none it waits to be stopped: an evaluator asks to be
// started again then.
inline constexpr const char* kProgram = R"(#!/bin/bash
name=$CONVOY_ROLE-$CONVOY_ROLE_INDEX
trap 'echo "$name" >> "$HERE/stopped"; if [[ $1 == evaluator ]]; then exit 75; else exit 0; fi' TERM
trap 'echo "$name got USR1"' USR1
echo "$*" >> "$HERE/started"
echo x >> "$HERE/starts-$name"
for ((i = 1; i <= $#; ++i)); do
  if [[ ${!i} == --data ]]; then next=$((i + 1)); mkdir -p "${!next}"; echo x > "${!next}/log"; fi
done
echo "$1 is here"
line=$(sed -n "$(grep -c . "$HERE/starts-$name")p" "$HERE/plan-$name" 2>/dev/null)
if [[ -n $line ]]; then eval "$line"; fi
echo x >> "$HERE/waits-$name"
while :; do sleep 0.05; done
)";

class DownpourJob : public testing::Test {
 protected:
  void SetUp() override {
    test::spill(path("convoy"), kProgram);
    fs::permissions(path("convoy"), fs::perms::owner_all);
    fs::create_directory(path("tmp"));
  }
  std::string path(const std::string& name) const { return scratch_.path(name); }
  std::string data(const std::string& name = "") const { return path("run/server/" + name); }
  void plan(const std::string& role, const std::string& lines) const {
    test::spill(path("plan-" + role), lines);
  }
  Lines noted(const std::string& file) const {
    return fs::exists(path(file)) ? lines_of(test::slurp(path(file))) : Lines{};
  }
  std::size_t starts(const std::string& role) const { return noted("starts-" + role).size(); }

  // The evaluator of the next job does that when the others have come so far that they wait.
  void begins_until(const std::string& end) const {
    std::string all = "until [ -d $HERE";
    for (const std::string role :
         {"coordinator-0", "server-0", "server-1", "replica-0", "replica-1"}) {
      fs::remove(path("starts-" + role));
      fs::remove(path("waits-" + role));
      all += " -a -e $HERE/waits-" + role;
    }
    fs::remove(path("starts-evaluator-0"));
    plan("evaluator-0", all + " ]; do sleep 0.01; done; " + end + "\n");
  }

  std::unique_ptr<Job> start(Lines more = {}) const {
    Lines arguments{"supervise", "--program", path("convoy"), "--data", path("run/server"),
                    "--recipe",  "one",       "--replicas",   "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<Job>(arguments, Lines{"HERE=" + path(""), "TMPDIR=" + path("tmp")},
                                 server_program());
  }
  JobResult end_of(Job& job) const {
    JobResult result = job.finish();
    EXPECT_GE(job.wait_until_gone(), 0) << "a process is left";
    EXPECT_EQ(test::entries(path("tmp")), 0u);
    return result;
  }
  JobResult run(Lines more = {}) const { return end_of(*start(std::move(more))); }
  // Whether a process of this role, as "replica-0" or "evaluator", lives.
  static bool lives(const Job& job, const std::string& role) {
    for (const JobProcess& process : job.processes("bash")) {
      for (const std::string& word : process.arguments) {
        if (word == role) return true;
      }
    }
    return false;
  }
  // Starts one and tells it to stop when a role has made the mark "late".
  std::unique_ptr<Job> start_and_stop() const {
    fs::remove(path("late"));
    auto job = start();
    wait_until([&] { return fs::exists(path("late")); });
    kill(job->pid(), SIGTERM);
    return job;
  }
  // A process that begins with few files can't remove a tree that is deeper than it has
  // descriptors, not even as root.
  std::string too_deep() const {
    std::string deep = data("server-1");
    for (int i = 0; i < 300; ++i) deep += "/d";
    return deep;
  }
  template <typename Start>
  JobResult with_few_files(const Start& start) const {
    rlimit old{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    const rlimit few{256, old.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto job = start();
    setrlimit(RLIMIT_NOFILE, &old);
    return end_of(*job);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  test::Scratch scratch_;
};

}  // namespace convoy::cli
