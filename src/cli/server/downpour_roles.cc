#include "cli/server/downpour_roles.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "cli/launch/hosts.h"
#include "cli/launch/report.h"
#include "cli/server/certificate_folder.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using Words = std::vector<std::string>;

// Below what Linux gives to clients: none can take the port while the coordinator is away.
constexpr int kFirstPort = 20000;
constexpr int kLastPort = 32767;
constexpr double kServicePause_s = 0.25;
constexpr double kLongestServicePause_s = 5;

enum StopOrder { kEvaluator, kReplicas, kServers, kCoordinator };

class Roles {
 public:
  Roles(const DownpourSetup& setup, const JobData& data) : setup_(setup), data_(data) {}

  std::vector<Role> make() {
    add_coordinator();
    for (int server = 1; server <= setup_.servers; ++server) add_server(server);
    add_evaluator();
    for (int replica = 0; replica < setup_.replicas; ++replica) add_replica(replica);
    return std::move(roles_);
  }

 private:
  std::string host(int index) const {
    if (setup_.hosts.empty()) return "";
    return setup_.hosts[static_cast<std::size_t>(index) % setup_.hosts.size()];
  }

  // On a host of the list.
  Role& add(const std::string& name, int index, int host_index, Words command) {
    Role& role = roles_.emplace_back();
    role.name = name;
    role.index = index;
    role.argv = std::move(command);
    role.fatal = {kExitUsage};
    const std::string where = host(host_index);
    if (!setup_.certificates.empty()) {
      const CertificatePaths paths =
          certificate_paths(setup_.certificates, where.empty() ? "localhost" : where);
      role.argv.insert(role.argv.end(), {"--tls-ca", paths.authority, "--tls-certificate",
                                         paths.certificate, "--tls-key", paths.key});
    }
    if (!is_this_host(where)) role.host = where;
    return role;
  }

  static void make_service(Role& role, int order) {
    role.until_done = false;
    role.stop_order = order;
    role.stops_anyhow = true;  // behind the evaluator's last checkpoint
    role.restart = {Restart::When::on_failure, Restart::kNoLimit, kServicePause_s,
                    kLongestServicePause_s};
  }

  void add_coordinator() {
    Words command{setup_.program, "coordinator"};
    if (setup_.recipe.empty())
      command.push_back(data_.recipe_file());
    else
      command.insert(command.end(), setup_.recipe.begin(), setup_.recipe.end());
    command.insert(command.end(),
                   {"--listen", setup_.coordinator, "--data", data_.coordinator_folder()});
    if (!setup_.checkpoint.empty()) command.insert(command.end(), {"--resume", setup_.checkpoint});
    if (!setup_.etcd.empty()) {
      std::string list;
      for (const std::string& member : setup_.etcd) list += (list.empty() ? "" : ",") + member;
      command.insert(command.end(), {"--etcd", list});
      if (!setup_.etcd_prefix.empty())
        command.insert(command.end(), {"--etcd-prefix", setup_.etcd_prefix});
    }
    make_service(add("coordinator", 0, 0, std::move(command)), kCoordinator);
  }

  void add_server(int server) {
    const std::string where = host(server - 1);
    // Its own port, any: it tells the coordinator.
    Role& role =
        add("server", server - 1, server - 1,
            {setup_.program, "serve", setup_.coordinator, "--server", std::to_string(server),
             "--listen", (where.empty() ? "127.0.0.1" : where) + ":0", "--data",
             data_.server_folder(server)});
    make_service(role, kServers);
  }

  // A command of so many ranks.
  Words ranks(Words command) const {
    if (setup_.partitions == 1) return command;
    Words all{setup_.program,
              "run",
              "-n",
              std::to_string(setup_.partitions),
              "--partitions",
              std::to_string(setup_.partitions),
              "--bind",
              "none",
              "--threads",
              std::to_string(setup_.threads),
              "--"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

  void set_threads(Role& role) const {
    role.env.push_back("OMP_NUM_THREADS=" + std::to_string(setup_.threads));
  }

  // Each replica counts its ranks from 0. Of a host's GPUs those of the first replica come first,
  // and those of `before` replicas on the same host are theirs.
  void set_first_gpu(Role& role, int before) const {
    if (!setup_.gpus) return;
    role.env.push_back("CONVOY_FIRST_GPU=" + std::to_string(before * setup_.partitions));
  }
  int replicas_on(const std::string& where, int among) const {
    int count = 0;
    for (int replica = 0; replica < among; ++replica) count += host(replica) == where ? 1 : 0;
    return count;
  }

  void add_evaluator() {
    Words command{setup_.program, "evaluator", setup_.coordinator};
    // Started again, it goes on with the run folder; if it has died before there was anything to go
    // on with, it begins anew, and what it had written is in its way.
    if (setup_.checkpoint.empty())
      command.push_back("--overwrite");
    else
      command.insert(command.end(), {"--resume", setup_.checkpoint});
    Role& role = add("evaluator", 0, 0, ranks(std::move(command)));
    role.fatal.push_back(kExitRequeue);
    role.restart = {Restart::When::on_failure, setup_.restarts};
    role.stop_order = kEvaluator;
    role.plain = true;
    role.draws = setup_.columns > 0;
    if (!setup_.by_hand) role.env.push_back("CONVOY_COLUMNS=" + std::to_string(setup_.columns));
    if (!setup_.command.empty()) role.env.push_back("CONVOY_COMMAND=" + setup_.command);
    set_threads(role);
    set_first_gpu(role, replicas_on(host(0), setup_.replicas));
  }

  void add_replica(int replica) {
    Role& role = add("replica", replica, replica,
                     ranks({setup_.program, "replica", setup_.coordinator, "--name",
                            "replica-" + std::to_string(replica)}));
    role.until_done = false;
    role.stop_order = kReplicas;
    role.essential = false;
    role.last_essential = true;
    role.last_patience_s = setup_.last_patience_s;
    role.restart = {Restart::When::on_failure, setup_.restarts};
    set_threads(role);
    set_first_gpu(role, replicas_on(host(replica), replica));
  }

  const DownpourSetup& setup_;
  const JobData& data_;
  std::vector<Role> roles_;
};

void check_certificates_of(const DownpourSetup& setup) {
  const bool here = std::all_of(setup.hosts.begin(), setup.hosts.end(), is_this_host);
  if (setup.certificates.empty()) {
    if (here) return;
    throw UsageError(
        "processes on several hosts speak to each other through TLS: convoy certs DIR --hosts " +
        setup.hosts.front() + ",... makes certificates, and --certs DIR names them");
  }
  for (const std::string& host : setup.hosts.empty() ? Words{"localhost"} : setup.hosts) {
    const CertificatePaths paths = certificate_paths(setup.certificates, host);
    for (const std::string& path : {paths.authority, paths.certificate, paths.key}) {
      if (!std::filesystem::exists(path))
        throw UsageError("--certs " + setup.certificates + ": there is no " + path +
                         "; make it with: convoy certs " + setup.certificates + " --hosts " + host);
    }
  }
}

// Nobody listens there, nor holds it as a client.
bool is_free(int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return socket.open() &&
         bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::vector<Role> downpour_roles(const DownpourSetup& setup, const JobData& data) {
  check_certificates_of(setup);
  return Roles(setup, data).make();
}

int likely_port() {
  std::random_device random;
  return kFirstPort + static_cast<int>(random() % (kLastPort - kFirstPort + 1));
}

std::string free_address() {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const int port = likely_port();
    if (is_free(port)) return "127.0.0.1:" + std::to_string(port);
  }
  throw Failure("no port from " + std::to_string(kFirstPort) + " to " + std::to_string(kLastPort) +
                " of this host is free for the coordinator");
}

}  // namespace convoy::cli
