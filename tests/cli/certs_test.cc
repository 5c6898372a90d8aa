// convoy certs, as a user calls it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

class Certs : public testing::Test {
 protected:
  JobResult certs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"certs", folder()});
    return Job(arguments, {}, server_program()).finish();
  }
  std::string folder() const { return scratch_.path("certs"); }
  std::string text(const std::string& file) const { return test::slurp(folder() + "/" + file); }
  // What --check says of a file.
  nlohmann::json state(const std::string& file, int expected_status) const {
    const JobResult result = certs({"--check", "--json", "-"});
    EXPECT_EQ(result.exit_status, expected_status) << result.out << result.err;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["file"] == file) return row;
    }
    ADD_FAILURE() << file << " is not in: " << result.out;
    return {};
  }

  test::Scratch scratch_;
};

TEST_F(Certs, MakesACaAndACertificateForEachHostThatOnlyTheirOwnerCanRead) {
  const JobResult result = certs({"--hosts", "node1,node2+10.0.0.2+::1", "--name", "mine"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* name :
       {"", "ca.pem", "ca.key", "node1.pem", "node1.key", "node2.pem", "node2.key"}) {
    struct stat status {};
    ASSERT_EQ(stat((folder() + "/" + name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0077, 0u) << name;
  }
  EXPECT_EQ(test::entries(folder()), 6u);
  EXPECT_EQ(state("ca.pem", 0)["name"], "mine");
  EXPECT_EQ(state("node2.pem", 0)["hosts"], nlohmann::json({"node2", "10.0.0.2", "::1"}));
  EXPECT_GE(state("node1.pem", 0)["days_left"], 363);
}

TEST_F(Certs, AddsHostsAndKeepsWhatIsThere) {
  EXPECT_EQ(certs({"--hosts", "node1"}).exit_status, 0);
  const std::string ca = text("ca.pem"), node1 = text("node1.pem");
  const JobResult result = certs({"--hosts", "node1,node2"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(result.out.find("kept, since they are there: node1"), std::string::npos) << result.out;
  EXPECT_EQ(text("ca.pem"), ca);
  EXPECT_EQ(text("node1.pem"), node1);
  EXPECT_EQ(state("node2.pem", 0)["problem"], "");
  EXPECT_EQ(certs({"--hosts", "node1", "--renew"}).exit_status, 0);
  EXPECT_NE(text("node1.pem"), node1);
  EXPECT_EQ(text("ca.pem"), ca);
}

TEST_F(Certs, ReplacesACaOnlyWhenToldAndSaysWhatThatCosts) {
  EXPECT_EQ(certs({"--hosts", "node1,node2"}).exit_status, 0);
  const std::string ca = text("ca.pem");
  const JobResult result = certs({"--hosts", "node1", "--new-ca"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(text("ca.pem"), ca);
  EXPECT_NE(result.out.find("worth nothing with this one: node2"), std::string::npos) << result.out;
  EXPECT_EQ(state("node1.pem", 1)["problem"], "");
  EXPECT_EQ(state("node2.pem", 1)["problem"], "of another CA");
}

TEST_F(Certs, HalfACaIsNoReasonToMakeAnother) {
  EXPECT_EQ(certs({"--hosts", "node1"}).exit_status, 0);
  fs::remove(folder() + "/ca.key");
  const std::string ca = text("ca.pem");
  const JobResult result = certs({"--hosts", "node2"});
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("ca.pem without ca.key"), std::string::npos) << result.err;
  EXPECT_EQ(text("ca.pem"), ca);
  EXPECT_FALSE(fs::exists(folder() + "/node2.pem"));
}

TEST_F(Certs, CheckFindsWhatIsWrong) {
  EXPECT_EQ(certs({"--hosts", "node1,node2,node3"}).exit_status, 0);
  fs::permissions(folder() + "/node1.key", fs::perms::group_read, fs::perm_options::add);
  fs::copy_file(folder() + "/node3.key", folder() + "/node2.key",
                fs::copy_options::overwrite_existing);
  test::spill(folder() + "/node4.pem", "not a certificate");
  EXPECT_EQ(state("node1.pem", 1)["problem"], "its key can be read by others");
  EXPECT_EQ(state("node2.pem", 1)["problem"], "its key is another's");
  EXPECT_EQ(state("node3.pem", 1)["problem"], "");
  EXPECT_EQ(state("node4.pem", 1)["problem"], "no PEM certificate");
}

TEST_F(Certs, MistakesAreNamed) {
  const auto error = [&](std::vector<std::string> arguments) {
    const JobResult result = certs(std::move(arguments));
    EXPECT_EQ(result.exit_status, 2) << result.out;
    return result.err;
  };
  EXPECT_NE(error({}).find("for which hosts?"), std::string::npos);
  EXPECT_NE(error({"--hosts", "node 1"}).find("'node 1' is no host"), std::string::npos);
  EXPECT_NE(error({"--hosts", "../node1"}).find("is no host"), std::string::npos);
  EXPECT_NE(error({"--hosts", "ca"}).find("can't be called ca"), std::string::npos);
  EXPECT_NE(error({"--check"}).find("has no ca.pem"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder() + "/ca.pem"));
}

}  // namespace
}  // namespace convoy::cli
