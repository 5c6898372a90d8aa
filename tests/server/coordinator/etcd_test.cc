#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "server/coordinator/base64.h"
#include "server/coordinator/etcd_client.h"
#include "server/coordinator/etcd_store.h"
#include "server/transport/certificates.h"
#include "tests/base/leave_out.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/coordinator/processes.h"
#include "tests/server/coordinator/store_checks.h"

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
using WriteKind = Changed::Kind;
using test::bytes;
using test::text;

constexpr const char* kEtcd = "/usr/bin/etcd";
constexpr auto kLong = convoy::test::patience();

// Members of one etcd on this machine.
class Etcd {
 public:
  explicit Etcd(std::size_t members, const transport::TlsFiles* tls = nullptr)
      : ports_(test::free_ports(2 * members)) {
    const std::string scheme = tls != nullptr ? "https" : "http";
    std::string cluster;
    for (std::size_t i = 0; i < members; ++i) {
      cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + peer(i);
    }
    for (std::size_t i = 0; i < members; ++i) {
      const std::string name = "m" + std::to_string(i);
      endpoints_.push_back(scheme + "://127.0.0.1:" + std::to_string(ports_[2 * i]));
      std::vector<std::string> command = {kEtcd,
                                          "--name",
                                          name,
                                          "--data-dir",
                                          scratch_.path(name),
                                          "--listen-client-urls",
                                          endpoints_[i],
                                          "--advertise-client-urls",
                                          endpoints_[i],
                                          "--listen-peer-urls",
                                          peer(i),
                                          "--initial-advertise-peer-urls",
                                          peer(i),
                                          "--initial-cluster",
                                          cluster,
                                          "--initial-cluster-state",
                                          "new",
                                          "--log-level",
                                          "error"};
      if (tls != nullptr) {
        for (const auto& [option, file] : {std::pair{"--trusted-ca-file", tls->authority},
                                           {"--cert-file", tls->certificate},
                                           {"--key-file", tls->key}}) {
          command.emplace_back(option);
          command.push_back(file.string());
        }
        command.emplace_back("--client-cert-auth");
      }
      members_.push_back(std::make_unique<test::Program>(command, scratch_.path(name + ".out")));
    }
  }

  EtcdOptions options(const std::string& prefix) const {
    EtcdOptions options;
    options.endpoints = endpoints_;
    options.prefix = prefix;
    options.timeout = 30s;  // on a machine that is busy with other things, and a slow disk
    return options;
  }
  // Once there is a leader.
  std::size_t leader() const {
    const auto give_up = std::chrono::steady_clock::now() + kLong;
    while (std::chrono::steady_clock::now() < give_up) {
      for (std::size_t i = 0; i < endpoints_.size(); ++i) {
        try {
          EtcdOptions one = options("x/");
          one.endpoints = {endpoints_[i]};
          const auto status =
              EtcdClient(one).post("/v3/maintenance/status", nlohmann::json::object());
          if (status.value("leader", "0") != "0" &&
              status.at("leader") == status.at("header").at("member_id")) {
            return i;
          }
        } catch (const Failure&) {
        }
      }
      std::this_thread::sleep_for(50ms);
    }
    ADD_FAILURE() << "no leader: " << output();
    return 0;
  }
  void kill(std::size_t member) { members_[member]->kill(); }
  std::string output() const {
    std::string all;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      all += read_text_file(scratch_.path("m" + std::to_string(i) + ".out"));
    }
    return all;
  }

 private:
  std::string peer(std::size_t i) const {
    return "http://127.0.0.1:" + std::to_string(ports_[2 * i + 1]);
  }

  convoy::test::Scratch scratch_;
  std::vector<int> ports_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<test::Program>> members_;
};

bool there() { return std::filesystem::exists(kEtcd); }

// Until it is reached.
Changed surely(StateStore& store, std::uint64_t term, const Write& write) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  while (true) {
    const Changed changed = store.change(term, std::span(&write, 1), Survives::power);
    if (changed.kind != WriteKind::unreached || std::chrono::steady_clock::now() > give_up) {
      return changed;
    }
    std::this_thread::sleep_for(50ms);
  }
}

TEST(Etcd, KeepsWhatAStoreKeepsAlsoWhenItsLeaderIsKilled) {
  if (!there()) LEAVE_OUT("there is no etcd: tools/setup.sh --tests installs etcd-server");
  Etcd etcd(3);
  etcd.leader();
  test::check_store([&] { return open_etcd_store(etcd.options("test/one/")); });
  const auto other = open_etcd_store(etcd.options("test/two/"));
  EXPECT_TRUE(other->list("").empty()) << "another job's";
  test::check_configurations(*other);

  const auto store = open_etcd_store(etcd.options("test/three/"));
  const std::uint64_t term = store->begin();
  // More than are listed at once.
  for (int i = 0; i < 2100; i += 70) {
    std::vector<Write> writes;
    for (int k = i; k < i + 70; ++k) writes.push_back({"key/" + std::to_string(k), 0, bytes("v")});
    const Changed changed = store->change(term, writes, Survives::process);
    ASSERT_EQ(changed.kind, WriteKind::done) << changed.problem;
  }
  EXPECT_EQ(store->list("key/").size(), 2100u);
  EXPECT_EQ(store->list("key/10").size(), 111u);

  // A change sets the term's key, so that those that were given up before can't be applied later.
  const Changed last = surely(*store, term, {"b", {}, bytes("1")});
  ASSERT_EQ(last.kind, WriteKind::done) << last.problem;
  EtcdClient client(etcd.options("test/three/"));
  const nlohmann::json key = {{"key", to_base64("test/three/term")}};
  const auto found = client.post("/v3/kv/range", key);
  EXPECT_EQ(found.at("kvs").at(0).at("mod_revision"), std::to_string(last.revision));
  // One that was applied after all.
  nlohmann::json late = key;
  late["value"] = found.at("kvs").at(0).at("value");
  client.post("/v3/kv/put", late);
  EXPECT_EQ(surely(*store, term, {"b", last.revision, bytes("2")}).kind, WriteKind::done);
  EXPECT_EQ(surely(*store, term, {"b", last.revision, bytes("3")}).kind, WriteKind::conflict);
  // Whoever has nothing to write learns that its term is over.
  const auto idle = open_etcd_store(etcd.options("test/four/"));
  idle->begin();
  EXPECT_EQ(idle->settle().kind, WriteKind::done);
  open_etcd_store(etcd.options("test/four/"))->begin();
  Changed settled;
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  while (settled.kind != WriteKind::fenced && std::chrono::steady_clock::now() < give_up) {
    settled = idle->settle();
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(settled.kind, WriteKind::fenced);

  // All keys of a job that is over, and nobody else's.
  ASSERT_EQ(surely(*other, other->begin(), {"a", {}, bytes("b")}).kind, WriteKind::done);
  for (const std::string prefix : {"test/two/", "test/twofold/"}) {
    nlohmann::json put = {{"key", to_base64(prefix + "term")}, {"value", to_base64("1")}};
    client.post("/v3/kv/put", put);
  }
  const auto count = [&](const std::string& prefix) {
    return client
        .post("/v3/kv/range", {{"key", to_base64(prefix)},
                               {"range_end", to_base64(prefix.substr(0, prefix.size() - 1) + "0")},
                               {"count_only", true}})
        .value("count", "0");
  };
  EXPECT_NE(count("test/two/"), "0");
  const std::string others = count("test/three/");
  remove_etcd_keys(etcd.options("test/two/"));
  EXPECT_EQ(count("test/two/"), "0");
  EXPECT_EQ(count("test/twofold/"), "1");
  EXPECT_EQ(count("test/three/"), others);
  const Write late_write{"a", {}, bytes("c")};
  EXPECT_NE(other->change(1, std::span(&late_write, 1), Survives::power).kind, WriteKind::done);
  EXPECT_EQ(count("test/two/"), "0");
  remove_etcd_keys(etcd.options("test/two/"));  // nothing is there
  EXPECT_THROW(remove_etcd_keys(etcd.options("")), UsageError);
  EXPECT_THROW(remove_etcd_keys(etcd.options("test")), UsageError);

  const std::size_t first = etcd.leader();
  etcd.kill(first);
  const Changed after = surely(*store, term, {"a", {}, bytes("after")});
  EXPECT_EQ(after.kind, WriteKind::done) << after.problem << etcd.output();
  EXPECT_EQ(text(store->read("a")), "after");
  const Changed next =
      store->compare_and_set(term, "a", after.revision, bytes("next"), Survives::power);
  EXPECT_EQ(next.kind, WriteKind::done) << next.problem;
  EXPECT_EQ(store->compare_and_set(term, "a", after.revision, bytes("no"), Survives::power).kind,
            WriteKind::conflict);
  const std::uint64_t second = store->begin();
  EXPECT_EQ(second, term + 1);
  EXPECT_EQ(surely(*store, term, {"a", {}, bytes("late")}).kind, WriteKind::fenced);

  // One of three decides nothing.
  etcd.kill((first + 1) % 3);
  EtcdOptions hasty = etcd.options("test/three/");
  hasty.timeout = 2s;
  const auto minority = open_etcd_store(hasty);
  const Write write{"a", {}, bytes("alone")};
  const Changed alone = minority->change(second, std::span(&write, 1), Survives::power);
  EXPECT_EQ(alone.kind, WriteKind::unreached);
  EXPECT_NE(alone.problem.find("127.0.0.1"), std::string::npos) << alone.problem;
  EXPECT_THROW(minority->read("a"), Failure);
}

TEST(Etcd, SpeaksTlsAndRefusesStrangers) {
  if (!there()) LEAVE_OUT("there is no etcd: tools/setup.sh --tests installs etcd-server");
  using namespace transport;
  const convoy::test::Scratch scratch;
  const auto files = [&](const std::string& name) {
    const auto authority = make_authority(name + " authority", Validity::days(1));
    const auto own = issue_certificate(authority, name, {"127.0.0.1"}, Validity::days(1));
    const TlsFiles files{scratch.path(name + ".ca"), scratch.path(name + ".crt"),
                         scratch.path(name + ".key")};
    std::ofstream(files.authority) << authority.certificate;
    std::ofstream(files.certificate) << own.certificate;
    std::ofstream(files.key) << own.key;
    return files;
  };
  const TlsFiles ours = files("ours"), theirs = files("theirs");
  Etcd etcd(1, &ours);
  EtcdOptions options = etcd.options("test/");
  options.tls = ours;
  const auto store = open_etcd_store(options);
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  std::uint64_t term = 0;
  std::string problem;
  while (term == 0 && std::chrono::steady_clock::now() < give_up) {
    try {
      term = store->begin();
    } catch (const Failure& failure) {
      problem = failure.what();
      std::this_thread::sleep_for(50ms);
    }
  }
  ASSERT_EQ(term, 1u) << problem << etcd.output();
  EXPECT_EQ(store->compare_and_set(term, "a", 0, bytes("b"), Survives::power).kind,
            WriteKind::done);
  options.tls = theirs;
  EXPECT_THROW(open_etcd_store(options)->read("a"), Failure);
}

TEST(Etcd, RefusesBadAddresses) {
  const auto refused = [](const std::string& endpoint, const std::string& word) {
    EtcdOptions options;
    options.endpoints = {endpoint};
    try {
      open_etcd_store(options);
      ADD_FAILURE() << endpoint;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused("127.0.0.1:2379", "http://HOST:PORT");
  refused("http://10.1.2.3:2379", "https");
  refused("https://127.0.0.1:2379", "certificates");
  refused("http://127.0.0.1:2379/v3", "path");
  refused("http://user@127.0.0.1:2379", "user");
  refused("http://127.0.0.1", "port");
  EtcdOptions options;
  EXPECT_THROW(open_etcd_store(options), UsageError);
  options.endpoints = {"http://127.0.0.1:2379"};
  options.prefix = "convoy";
  EXPECT_THROW(open_etcd_store(options), UsageError);
}

TEST(Etcd, NobodyThereIsAFailureThatNamesAll) {
  const auto ports = test::free_ports(2);
  EtcdOptions options;
  for (const int port : ports)
    options.endpoints.push_back("http://127.0.0.1:" + std::to_string(port));
  const auto store = open_etcd_store(options);
  try {
    store->begin();
    ADD_FAILURE();
  } catch (const Failure& failure) {
    for (const int port : ports) {
      EXPECT_NE(std::string(failure.what()).find(std::to_string(port)), std::string::npos)
          << failure.what();
    }
  }
}

TEST(Base64, IsThatOfTheStandard) {
  for (const auto& [plain, encoded] : {std::pair<std::string, std::string>{"", ""},
                                       {"f", "Zg=="},
                                       {"fo", "Zm8="},
                                       {"foo", "Zm9v"},
                                       {"foob", "Zm9vYg=="},
                                       {"\xff\xfe\xfd", "//79"}}) {
    EXPECT_EQ(to_base64(std::string_view(plain)), encoded);
    EXPECT_EQ(text(from_base64(encoded)), plain);
  }
  for (const std::string bad : {"Zg=", "Zg", "Z===", "Zg=a", "Zm9v====", "Zm\n9"}) {
    EXPECT_THROW(from_base64(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
