// convoy serve as a process: what it prints, and how it ends. The program of this test is also the
// process under test, given "serve" as its first word.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "tests/server/host/server_fixture.h"

namespace convoy::server::host::test {
namespace {

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/proc/self/exe", "serve"});
    Pipe pipe = make_pipe();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe.writing.get(), STDERR_FILENO);
      std::vector<char*> words;
      for (std::string& argument : arguments) words.push_back(argument.data());
      words.push_back(nullptr);
      execv(words[0], words.data());
      _exit(127);
    }
    pipe.writing.reset();
    reader_ = std::thread([this, in = std::move(pipe.reading)] {
      char buffer[4096];
      ssize_t got;
      while ((got = read(in.get(), buffer, sizeof buffer)) > 0) {
        const std::lock_guard lock(mutex_);
        text_.append(buffer, static_cast<std::size_t>(got));
      }
    });
  }
  ~Process() {
    if (pid_ > 0) end(SIGKILL);
  }

  // Sends a signal, if any; the status that it ends with, or minus the signal.
  int end(int signal) {
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    reader_.join();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool says(const std::string& what) const {
    const bool said = Servers::wait([&] { return text().find(what) != std::string::npos; });
    if (!said) ADD_FAILURE() << "no '" << what << "' in:\n" << text();
    return said;
  }

 private:
  pid_t pid_ = 0;
  mutable std::mutex mutex_;
  std::string text_;
  std::thread reader_;
};

class Serve : public testing::Test {
 protected:
  std::vector<std::string> words(const std::string& number = "1",
                                 std::vector<std::string> more = {}) {
    std::vector<std::string> all{coordinator.address(), "--server", number, "--data",
                                 scratch.path("data")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  convoy::test::Scratch scratch;
  PacedTime time;
  FakeCoordinator coordinator{time, plan_of(1)};
};

TEST_F(Serve, SaysWhatItDoesAndEndsInOrder) {
  for (int i = 0; i < 2; ++i) {
    Process process(words());
    process.says("serving shard 0 of job 'test' on 127.0.0.1:");
    process.says("shard 0: primary in epoch " + std::to_string(i + 1) + ", alone");
    EXPECT_EQ(process.end(SIGTERM), 0) << process.text();
    process.says("ended in order");
  }
  EXPECT_TRUE(std::filesystem::exists(scratch.path("data/shard-0/identity")));
}

TEST_F(Serve, SaysWhatIsWrong) {
  Process running(words());
  running.says("primary in epoch");
  Process second(words());
  EXPECT_EQ(second.end(0), kExitFailure);
  second.says("is in use by another process");
  Process third(words("3"));
  EXPECT_EQ(third.end(0), kExitUsage);
  third.says("there is no server 3: job 'test' has 1 server");
  Process open(words("1", {"--listen", "0.0.0.0:0"}));
  EXPECT_NE(open.end(0), 0);
}

TEST_F(Serve, WaitsForTheCoordinator) {
  coordinator.stop();
  Process process(words());
  process.says("waiting for the coordinator at " + coordinator.address());
  coordinator.start();
  process.says("serving shard 0");
  EXPECT_EQ(process.end(SIGINT), 0);
  coordinator.stop();
  Process stopped(words());
  stopped.says("waiting for the coordinator");
  EXPECT_EQ(stopped.end(SIGTERM), 0);
}

}  // namespace
}  // namespace convoy::server::host::test

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "serve") {
    CLI::App app;
    convoy::cli::Outcome outcome;
    convoy::cli::add_serve_command(app, outcome);
    try {
      app.parse(argc, argv);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return convoy::exit_status(error);
    }
    return outcome.exit_status;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
