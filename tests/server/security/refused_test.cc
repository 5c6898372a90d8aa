// Who may not take part hears why, in one line, as users see it: a server and `convoy status` that
// come to a coordinator, a client, and processes that are come to. The program of this test is also
// the processes under test, given their command as its first word.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/commands.h"
#include "cli/server/certificate_folder.h"
#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/server/client.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/log_store.h"
#include "server/host/server.h"
#include "server/transport/certificates.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"

namespace convoy::server {
namespace {

using namespace std::chrono_literals;  // NOLINT
using transport::CertificateAndKey;
using transport::Validity;

struct Ended {
  int status = 0;    // of exit, or minus the signal
  std::string text;  // standard output and standard error
};

// A command to its end; one that hangs is killed.
Ended run(std::vector<std::string> words) {
  words.insert(words.begin(), "/proc/self/exe");
  Pipe pipe = make_pipe();
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pipe.writing.get(), STDOUT_FILENO);
    dup2(pipe.writing.get(), STDERR_FILENO);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  pipe.writing.reset();
  Ended ended;
  const auto until = Clock::now() + convoy::test::patience();
  char buffer[4096];
  ssize_t got = 1;
  while (got > 0) {
    pollfd wait{pipe.reading.get(), POLLIN, 0};
    if (poll(&wait, 1, 100) == 0) {
      if (Clock::now() > until) kill(pid, SIGKILL);
      continue;
    }
    got = read(pipe.reading.get(), buffer, sizeof buffer);
    if (got > 0) ended.text.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended;
}

class Refused : public testing::Test {
 protected:
  void SetUp() override {
    // As a user makes them.
    const Ended made = run({"certs", certs_, "--hosts", "localhost+127.0.0.1"});
    ASSERT_EQ(made.status, 0) << made.text;
    const Ended others = run({"certs", scratch_.path("others"), "--hosts", "localhost+127.0.0.1"});
    ASSERT_EQ(others.status, 0) << others.text;
    const auto authority = cli::certificate_paths(certs_, "ca");
    const auto now = std::chrono::system_clock::now();
    const CertificateAndKey expired =
        transport::issue_certificate({text_of(authority.authority), text_of(authority.key)},
                                     "localhost", {"127.0.0.1"}, {now - 48h, now - 24h});
    std::filesystem::create_directory(expired_);
    std::filesystem::copy_file(authority.authority, expired_ + "/ca.pem");
    write(expired_ + "/localhost.pem", expired.certificate);
    write(expired_ + "/localhost.key", expired.key);
    // What another CA has signed, from someone who knows this one's certificate.
    std::filesystem::copy_file(authority.authority, others_ + "/ca.pem",
                               std::filesystem::copy_options::overwrite_existing);
  }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::optional<transport::TlsFiles> files(const std::string& folder) {
    if (folder.empty()) return std::nullopt;
    const auto paths = cli::certificate_paths(folder, "localhost");
    return transport::TlsFiles{paths.authority, paths.certificate, paths.key};
  }

  std::unique_ptr<coordinator::Coordinator> coordinate(const std::string& folder) {
    const convoy::Log log("", convoy::Log::Level::error);
    coordinator::CoordinatorSettings settings;
    settings.plan.name = "test";
    settings.plan.backups = false;
    settings.plan.epochs = 1;
    settings.tls = files(folder);
    settings.log = log;
    settings.fatal = [](const std::string& why) { ADD_FAILURE() << why; };
    const std::string data = scratch_.path("coordinator-" + std::to_string(++coordinators_));
    return std::make_unique<coordinator::Coordinator>(
        std::make_shared<coordinator::LogStore>(std::shared_ptr<Disk>(open_folder(data)), log),
        settings);
  }

  // Servers, status and clients with the certificates of this folder (none: plain text) that come
  // to this coordinator.
  void expect_refused(const std::string& address, const std::string& folder,
                      const std::string& why) {
    std::vector<std::string> serve{"serve", address,  "--server",
                                   "1",     "--data", scratch_.path("server")};
    std::vector<std::string> status{"status", address};
    for (auto* words : {&serve, &status}) {
      if (!folder.empty()) words->insert(words->end(), {"--certs", folder});
      Ended ended = run(*words);
      // A server whose first question is not answered within seconds says that it waits, before it
      // says why it is refused: then the machine was too busy.
      for (int i = 0; i < 5 && ended.text.find("waiting for the coordinator") != std::string::npos;
           ++i)
        ended = run(*words);
      EXPECT_TRUE(ended.status == kExitUsage || ended.status == kExitFailure)
          << words->front() << " ended with " << ended.status << ": " << ended.text;
      EXPECT_NE(ended.text.find(why), std::string::npos) << words->front() << ": " << ended.text;
      // A server warns of a certificate of its own that another CA has made.
      const bool warned = words == &serve && ended.text.find("] warning: ") != std::string::npos;
      EXPECT_EQ(std::count(ended.text.begin(), ended.text.end(), '\n'), warned ? 2 : 1)
          << words->front() << " says more than a line:\n"
          << ended.text;
    }
    ClientOptions options;
    options.coordinator = address;
    options.patience = convoy::test::patience();
    options.log = convoy::Log("", convoy::Log::Level::error);
    if (const auto tls = files(folder)) {
      options.tls = ClientTls{tls->authority, tls->certificate, tls->key};
    }
    try {
      const Client client(options);
      ADD_FAILURE() << "a client was served";
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }

  convoy::test::Scratch scratch_;
  const std::string certs_ = scratch_.path("certs"), others_ = scratch_.path("others"),
                    expired_ = scratch_.path("expired");
  int coordinators_ = 0;
};

TEST_F(Refused, WhoComesWithoutAGoodCertificate) {
  const auto coordinator = coordinate(certs_);
  const std::string address = coordinator->address();
  const Ended good = run({"status", address, "--certs", certs_});
  EXPECT_EQ(good.status, 0) << good.text;
  expect_refused(address, "", "was given no certificate (plain text)");
  expect_refused(address, others_, "shows a certificate of another CA");
  expect_refused(address, expired_, "shows a certificate that expired on ");
}

TEST_F(Refused, WhoIsComeToWithoutAGoodCertificate) {
  {
    const auto plain = coordinate("");
    expect_refused(plain->address(), certs_, "the server speaks plain text and this client TLS");
  }
  {
    const auto other = coordinate(others_);
    expect_refused(other->address(), certs_, "the server shows a certificate of another CA");
  }
  const auto expired = coordinate(expired_);
  expect_refused(expired->address(), certs_, "the server shows a certificate that expired on ");
}

// A server says it itself, before it asks anybody.
TEST_F(Refused, AServerWhoseOwnCertificateHasExpired) {
  const Ended ended = run({"serve", "127.0.0.1:1", "--server", "1", "--data",
                           scratch_.path("server"), "--certs", expired_});
  EXPECT_EQ(ended.status, kExitUsage) << ended.text;
  EXPECT_NE(ended.text.find("this process shows a certificate that expired on "), std::string::npos)
      << ended.text;
  EXPECT_NE(ended.text.find(expired_ + "/localhost.pem"), std::string::npos) << ended.text;
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("server")));
}

// Beyond this host nothing is plain.
TEST_F(Refused, OpenAddressesWithoutCertificates) {
  const auto coordinator = coordinate("");
  for (const auto& words :
       {std::vector<std::string>{"serve", coordinator->address(), "--server", "1", "--data",
                                 scratch_.path("server"), "--listen", "0.0.0.0:0"},
        std::vector<std::string>{"status", "192.0.2.1:7000"}}) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, kExitUsage) << ended.text;
    EXPECT_NE(ended.text.find("certificates"), std::string::npos) << ended.text;
  }
}

TEST_F(Refused, WhatIsNeitherAnAddressNorAJobsFolder) {
  const Ended nothing = run({"status", scratch_.path("runs/mine")});
  EXPECT_EQ(nothing.status, kExitUsage) << nothing.text;
  EXPECT_NE(nothing.text.find("there is no folder " + scratch_.path("runs/mine")),
            std::string::npos)
      << nothing.text;
  const Ended over = run({"status", scratch_.path(".")});
  EXPECT_EQ(over.status, kExitUsage) << over.text;
  EXPECT_NE(over.text.find("; convoy report shows how a run went that is over"), std::string::npos)
      << over.text;
}

// Not only the coordinator: a client that it let in is refused by a server with another job's
// certificates.
TEST_F(Refused, AServersOwnDoor) {
  const auto coordinator = coordinate(certs_);
  host::ServerSettings settings;
  settings.coordinator = coordinator->address();
  settings.data = scratch_.path("server");
  settings.tls = files(certs_);
  settings.log = convoy::Log("", convoy::Log::Level::error);
  settings.fatal = [](const std::string& why) { ADD_FAILURE() << why; };
  const host::Server server(settings);
  // A server is a listener as the coordinator is: asked for status it would answer.
  expect_refused(server.address(), "", "was given no certificate (plain text)");
  expect_refused(server.address(), others_, "shows a certificate of another CA");
  expect_refused(server.address(), expired_, "shows a certificate that expired on ");
}

}  // namespace
}  // namespace convoy::server

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "serve" || first == "status" || first == "certs") {
    CLI::App app;
    convoy::cli::Outcome outcome;
    convoy::cli::add_serve_command(app, outcome);
    convoy::cli::add_status_command(app, outcome);
    convoy::cli::add_certs_command(app, outcome);
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
