// Which processes a job with strategy "downpour" has, and what its data says of how it goes on.
#include "cli/server/downpour_roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

using Words = std::vector<std::string>;

class DownpourRoles : public testing::Test {
 protected:
  std::vector<Role> roles() const { return downpour_roles(setup_, data_); }
  Role role(const std::string& name, int index = 0) const {
    for (const Role& role : roles()) {
      if (role.name == name && role.index == index) return role;
    }
    ADD_FAILURE() << name << " " << index;
    return {};
  }
  Words labels() const {
    const std::vector<Role> all = roles();
    Words names;
    for (const Role& role : all) names.push_back(label_of(role, all));
    return names;
  }

  DownpourSetup setup_ = [] {
    DownpourSetup setup;
    setup.program = "/bin/convoy";
    setup.coordinator = "127.0.0.1:20001";
    setup.servers = 2;
    setup.replicas = 3;
    setup.restarts = 7;
    setup.threads = 4;
    return setup;
  }();
  JobData data_{"/run/server"};
};

TEST_F(DownpourRoles, AreWhatTheRecipeAsksFor) {
  EXPECT_EQ(labels(), (Words{"coordinator", "server-0", "server-1", "evaluator", "replica-0",
                             "replica-1", "replica-2"}));
  EXPECT_EQ(role("coordinator").argv,
            (Words{"/bin/convoy", "coordinator", "/run/server/recipe.toml", "--listen",
                   "127.0.0.1:20001", "--data", "/run/server/coordinator"}));
  EXPECT_EQ(role("server", 1).argv,
            (Words{"/bin/convoy", "serve", "127.0.0.1:20001", "--server", "2", "--listen",
                   "127.0.0.1:0", "--data", "/run/server/server-2"}));
  EXPECT_EQ(role("evaluator").argv,
            (Words{"/bin/convoy", "evaluator", "127.0.0.1:20001", "--overwrite"}));
  EXPECT_EQ(role("replica", 2).argv,
            (Words{"/bin/convoy", "replica", "127.0.0.1:20001", "--name", "replica-2"}));
  for (const Role& role : roles()) EXPECT_EQ(role.host, "");
  setup_.servers = 1;
  EXPECT_EQ(role("server").argv[4], "1");
}

TEST_F(DownpourRoles, AreStartedAgainAndStoppedAsTheyAreNeeded) {
  for (const char* name : {"coordinator", "server"}) {
    const Role service = role(name);
    EXPECT_FALSE(service.until_done);
    EXPECT_TRUE(service.essential);
    EXPECT_EQ(pause_before_restart(service.restart, true, 1 << 20, 0), 0.25);
    EXPECT_EQ(pause_before_restart(service.restart, true, 1 << 20, 1 << 20), 5);
    EXPECT_FALSE(pause_before_restart(service.restart, false, 0, 0));
  }
  const Role replica = role("replica", 1);
  EXPECT_FALSE(replica.until_done || replica.essential);
  EXPECT_TRUE(replica.last_essential);
  EXPECT_TRUE(pause_before_restart(replica.restart, true, 6, 0));
  EXPECT_FALSE(pause_before_restart(replica.restart, true, 7, 0));
  const Role evaluator = role("evaluator");
  EXPECT_TRUE(evaluator.until_done && evaluator.essential && evaluator.plain);
  EXPECT_TRUE(pause_before_restart(evaluator.restart, true, 6, 0));
  EXPECT_EQ(evaluator.fatal, (std::vector<int>{2, 75}));
  for (const Role& role : roles()) EXPECT_EQ(role.fatal.front(), 2) << role.name;
  // The checkpoint at the end needs replicas and servers, replicas need servers, and so on.
  EXPECT_LT(evaluator.stop_order, replica.stop_order);
  EXPECT_LT(replica.stop_order, role("server").stop_order);
  EXPECT_LT(role("server").stop_order, role("coordinator").stop_order);
}

TEST_F(DownpourRoles, DivideTheCores) {
  EXPECT_EQ(role("replica").env, Words{"OMP_NUM_THREADS=4"});
  setup_.columns = 100;
  EXPECT_EQ(role("evaluator").env, (Words{"CONVOY_COLUMNS=100", "OMP_NUM_THREADS=4"}));
  EXPECT_TRUE(role("evaluator").draws);
  setup_.command = "convoy train mine.toml";
  EXPECT_EQ(
      role("evaluator").env,
      (Words{"CONVOY_COLUMNS=100", "CONVOY_COMMAND=convoy train mine.toml", "OMP_NUM_THREADS=4"}));
  setup_.columns = 0;
  EXPECT_FALSE(role("evaluator").draws);
}

TEST_F(DownpourRoles, DivideTheGpus) {
  setup_.gpus = true;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(role("replica", i).env.back(), "CONVOY_FIRST_GPU=" + std::to_string(i));
  EXPECT_EQ(role("evaluator").env.back(), "CONVOY_FIRST_GPU=3");
  EXPECT_EQ(role("server").env, Words{});
  setup_.partitions = 2;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(role("replica", i).env.back(), "CONVOY_FIRST_GPU=" + std::to_string(2 * i));
  EXPECT_EQ(role("evaluator").env.back(), "CONVOY_FIRST_GPU=6");
}

TEST_F(DownpourRoles, OfAPartitionedModelAreJobsOfRanks) {
  setup_.partitions = 2;
  const Words begin{"/bin/convoy", "run",  "-n",        "2", "--partitions", "2",
                    "--bind",      "none", "--threads", "4", "--",           "/bin/convoy"};
  for (const char* name : {"replica", "evaluator"}) {
    const Words argv = role(name).argv;
    ASSERT_GT(argv.size(), begin.size());
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), argv.begin())) << name;
    EXPECT_EQ(argv[begin.size()], name);
  }
}

TEST_F(DownpourRoles, BeginWithACheckpoint) {
  setup_.checkpoint = "/run/checkpoints/step-1";
  for (const char* name : {"coordinator", "evaluator"}) {
    const Words argv = role(name).argv;
    EXPECT_EQ((Words{argv.end() - 2, argv.end()}), (Words{"--resume", "/run/checkpoints/step-1"}));
  }
}

TEST_F(DownpourRoles, OnSeveralHostsHaveTheirCertificates) {
  test::Scratch certs;
  for (const char* file : {"ca.pem", "node1.pem", "node1.key", "node2.pem", "node2.key"})
    test::spill(certs.path(file), "");
  setup_.hosts = {"node1", "node2"};
  setup_.coordinator = "node1:20001";
  EXPECT_NE(test::message_of<UsageError>([&] { roles(); }).find("convoy certs"), std::string::npos);
  setup_.certificates = certs.path();
  EXPECT_EQ(role("coordinator").host, "node1");
  EXPECT_EQ(role("evaluator").host, "node1");
  EXPECT_EQ(role("server", 0).host, "node1");
  EXPECT_EQ(role("server", 1).host, "node2");
  EXPECT_EQ(role("replica", 2).host, "node1");
  setup_.gpus = true;  // of each host
  EXPECT_EQ(role("replica", 1).env.back(), "CONVOY_FIRST_GPU=0");
  EXPECT_EQ(role("replica", 2).env.back(), "CONVOY_FIRST_GPU=1");
  EXPECT_EQ(role("evaluator").env.back(), "CONVOY_FIRST_GPU=2");
  const Words argv = role("server", 1).argv;
  EXPECT_EQ(argv[6], "node2:0");
  EXPECT_EQ((Words{argv.end() - 6, argv.end()}),
            (Words{"--tls-ca", certs.path("ca.pem"), "--tls-certificate", certs.path("node2.pem"),
                   "--tls-key", certs.path("node2.key")}));
  setup_.hosts.push_back("node3");
  EXPECT_NE(test::message_of<UsageError>([&] { roles(); }).find("--hosts node3"),
            std::string::npos);
}

TEST_F(DownpourRoles, TakeAPortThatNoClientIsGiven) {
  const std::string address = free_address();
  ASSERT_TRUE(address.starts_with("127.0.0.1:"));
  const int port = std::stoi(address.substr(10));
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 32768);
}

class Data : public testing::Test {
 protected:
  // As a job leaves it.
  void fill() {
    data_.lock();
    data_.write(record_);
    for (const std::string& folder :
         {data_.coordinator_folder(), data_.server_folder(1), data_.server_folder(2)}) {
      std::filesystem::create_directories(folder);
      test::spill(folder + "/log", "x");
    }
  }

  test::Scratch scratch_;
  JobData data_{scratch_.path("run/server")};
  JobRecord record_{.address = "a:1",
                    .recipe = "x = 1\n",
                    .checkpoint = "c",
                    .servers = 2,
                    .etcd_prefix = "convoy/a-b/",
                    .etcd = {"http://127.0.0.1:1"}};
};

TEST_F(Data, IsWholeOrItIsNot) {
  EXPECT_FALSE(data_.exists());
  EXPECT_FALSE(data_.whole());
  fill();
  EXPECT_TRUE(data_.exists());
  EXPECT_EQ(data_.whole(), record_);
  std::filesystem::remove(data_.server_folder(2) + "/log");
  EXPECT_FALSE(data_.whole());
  EXPECT_EQ(data_.record(), record_);
  test::spill(data_.server_folder(2) + "/log", "x");
  std::filesystem::remove_all(data_.coordinator_folder());
  EXPECT_FALSE(data_.whole());
  record_.coordinator_data = false;
  data_.write(record_);
  EXPECT_EQ(data_.whole(), record_);
  test::spill(data_.folder() + "/job.json", "{}");
  EXPECT_FALSE(data_.record());
  EXPECT_TRUE(data_.exists());
}

TEST_F(Data, IsRemovedByItsOwnerAlone) {
  fill();
  JobData other(data_.folder());
  EXPECT_NE(test::message_of<UsageError>([&] { other.lock(); }).find("at work"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(data_.server_folder(2) + "/log"));
  data_.remove();
  EXPECT_FALSE(data_.exists());
  EXPECT_FALSE(std::filesystem::exists(data_.server_folder(2)));
  EXPECT_NE(test::message_of<UsageError>([&] { other.lock(); }).find("at work"), std::string::npos);
}

class BeginningTest : public testing::Test {
 protected:
  std::string error() const {
    return test::message_of<UsageError>([&] { choose_beginning(facts_); });
  }

  BeginningFacts facts_{"latest", false, "step-5", JobRecord{}, true, {}, {}};
};

TEST_F(BeginningTest, NewJobsWantAnEmptyFolder) {
  facts_.resume.clear();
  EXPECT_NE(error().find("--resume goes on with it, --overwrite removes it"), std::string::npos);
  facts_.overwrite = true;
  Beginning beginning = choose_beginning(facts_);
  EXPECT_FALSE(beginning.go_on);
  EXPECT_EQ(beginning.checkpoint, "");
  facts_ = {};
  beginning = choose_beginning(facts_);
  EXPECT_FALSE(beginning.go_on);
  EXPECT_EQ(beginning.checkpoint + beginning.line, "");
}

TEST_F(BeginningTest, TheServersOwnDataGoesOn) {
  EXPECT_TRUE(choose_beginning(facts_).go_on);
  facts_.newest_checkpoint.clear();
  EXPECT_TRUE(choose_beginning(facts_).go_on);
}

TEST_F(BeginningTest, ElseTheNewestCheckpoint) {
  facts_.changes = {"downpour.shards"};
  Beginning beginning = choose_beginning(facts_);
  EXPECT_FALSE(beginning.go_on);
  EXPECT_EQ(beginning.checkpoint, "step-5");
  EXPECT_EQ(beginning.line, "from step-5, since the recipe has another downpour.shards");
  facts_.changes.clear();
  facts_.record.reset();
  beginning = choose_beginning(facts_);
  EXPECT_FALSE(beginning.go_on);
  EXPECT_EQ(beginning.line, "from step-5, since the servers' data is not whole");
  facts_.data = false;
  EXPECT_EQ(choose_beginning(facts_).line, "from step-5");
  facts_.newest_checkpoint.clear();
  EXPECT_NE(error().find("no checkpoint"), std::string::npos);
  facts_.data = true;
  EXPECT_NE(error().find("--overwrite begins anew"), std::string::npos);
}

TEST_F(BeginningTest, AutoGoesOnAsLatestDoes) {
  facts_.resume = "auto";
  EXPECT_TRUE(choose_beginning(facts_).go_on);
  facts_.changes = {"downpour.shards"};
  EXPECT_EQ(choose_beginning(facts_).line,
            "from step-5, since the recipe has another downpour.shards");
  facts_.newest_checkpoint.clear();
  EXPECT_NE(error().find("--resume=auto: the recipe has another downpour.shards, and there is no "
                         "checkpoint to go on from; --overwrite begins anew"),
            std::string::npos)
      << error();
}

TEST_F(BeginningTest, AutoBeginsWhereThereIsNothing) {
  bool lost = false, allowed = true;
  facts_ = {.resume = "auto", .newest_checkpoint = "", .record = {}, .changes = {}};
  facts_.lost_run = [&] {
    if (!allowed) throw UsageError("not there");
    return lost;
  };
  const auto begins = [&](bool again, const std::string& line) {
    const Beginning beginning = choose_beginning(facts_);
    EXPECT_FALSE(beginning.go_on);
    EXPECT_EQ(beginning.checkpoint, "");
    EXPECT_EQ(beginning.again, again);
    EXPECT_EQ(beginning.line, line);
  };
  begins(false, "");
  facts_.data = true;  // of a job that died while it started
  begins(false, "beginning anew: the servers' data is not whole, and nothing was trained with it");
  lost = true;
  EXPECT_NE(error().find("the servers' data is not whole, and there is no checkpoint"),
            std::string::npos)
      << error();
  facts_.data = false;
  begins(true, "beginning again: the run in the folder has no checkpoint");
  allowed = false;
  EXPECT_EQ(error(), "not there");
}

TEST_F(BeginningTest, ACheckpointThatIsNamedCounts) {
  facts_.resume = "step-3";
  const Beginning beginning = choose_beginning(facts_);
  EXPECT_FALSE(beginning.go_on);
  EXPECT_EQ(beginning.checkpoint, "step-3");
  EXPECT_NE(beginning.line.find("is removed"), std::string::npos);
}

TEST_F(BeginningTest, OnlyWhatTheJobDependsOnMatters) {
  for (const char* key : {"downpour.hosts", "downpour.restarts"})
    EXPECT_TRUE(may_change(key)) << key;
  for (const char* key : {"downpour.shards", "training.epochs", "optimizer.lr", "evaluation.batch"})
    EXPECT_FALSE(may_change(key)) << key;
}

}  // namespace
}  // namespace convoy::cli
