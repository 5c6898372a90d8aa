#include "server/host/server.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/host/server_core.h"
#include "server/transport/address.h"

namespace convoy::server::host {
namespace {

// Never the same twice, whatever happens to a disk, a clock or a source of random numbers, as long
// as it doesn't happen to all of them at once.
std::uint64_t new_incarnation() {
  std::random_device random;
  const std::uint64_t parts[] = {
      std::uint64_t{random()} << 32 | random(),
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()),
      static_cast<std::uint64_t>(Clock::now().time_since_epoch().count())};
  return std::max<std::uint64_t>(1, xxh3(std::as_bytes(std::span(parts))));
}

replication::NodeOptions node_options(const JobPlan& plan) {
  replication::NodeOptions options;
  options.durability =
      plan.synced ? replication::Durability::synced : replication::Durability::replicated;
  const replication::Time lease = replication::milliseconds(plan.server_lease_ms);
  options.peer_timeout = lease;
  options.report_interval = std::min(options.report_interval, lease / 10);
  options.heartbeat_interval = std::min(options.heartbeat_interval, lease / 10);
  return options;
}

}  // namespace

ServerCore::ServerCore(ServerSettings settings)
    : settings_(std::move(settings)),
      incarnation_(new_incarnation()),
      whole_(std::make_shared<transport::MessageMemory>(settings_.largest_message)),
      later_([this](const std::string& why) { fatal(why); }),
      largest_message_(settings_.largest_message) {
  coordinator_ = channel_to(settings_.coordinator, std::string(calls::kCoordinator));
  try {
    const calls::JobState state = ask_for_job();
    job_ = state.id;
    const JobPlan& plan = state.plan;
    if (settings_.number < 1 || settings_.number > plan.servers) {
      throw UsageError("there is no server " + std::to_string(settings_.number) + ": job '" +
                       plan.name + "' has " + std::to_string(plan.servers) +
                       (plan.servers == 1 ? " server" : " servers, 1 to ") +
                       (plan.servers == 1 ? "" : std::to_string(plan.servers)));
    }
    open_hosts(plan);
    listen();
    std::string names;
    for (const auto& [shard, host] : hosts_) {
      names += (names.empty() ? "" : ", ") + std::to_string(shard);
    }
    settings_.log.info("serving " +
                       (names.empty() ? std::string("no shard")
                                      : (hosts_.size() == 1 ? "shard " : "shards ") + names) +
                       " of job '" + plan.name + "' on " + address_ +
                       (plan.log ? ", files in " + settings_.data : ", without files"));
    learn(state);
    for (const auto& [shard, host] : hosts_) host->start();
    keeper_ = std::thread([this] { keep(); });
  } catch (...) {
    end(false);
    throw;
  }
}

ServerCore::~ServerCore() { end(false); }

void ServerCore::fatal(const std::string& why) const {
  settings_.log.error(why);
  if (settings_.fatal) settings_.fatal(why);
}

std::vector<std::uint32_t> ServerCore::shards() const {
  std::vector<std::uint32_t> shards;
  for (const auto& [shard, host] : hosts_) shards.push_back(shard);
  return shards;
}

void ServerCore::open_hosts(const JobPlan& plan) {
  for (std::uint32_t shard = 0; shard < plan.shards; ++shard) {
    const auto servers = servers_of(shard, plan);
    if (std::find(servers.begin(), servers.end(), settings_.number) == servers.end()) continue;
    ShardHostSettings host;
    host.job = job_;
    host.shard = shard;
    host.self = {settings_.number, incarnation_};
    host.node = node_options(plan);
    host.snapshot_bytes = settings_.snapshot_bytes;
    host.segment_bytes = settings_.segment_bytes;
    if (servers.size() < 2) host.recent_bytes = 0;  // nobody to give them to
    host.time = settings_.time;
    host.log = settings_.log;
    HostLinks links;
    links.to_node = [this](std::uint64_t node, std::vector<replication::Message> messages,
                           std::function<void(bool)> arrived) {
      to_node(node, std::move(messages), std::move(arrived));
    };
    links.to_authority = [this](replication::Message message) { to_authority(std::move(message)); };
    links.fatal = [this](const std::string& why) { fatal(why); };
    links.group_to_node = [this](std::uint64_t node, transport::Message copy,
                                 std::function<void(bool)> arrived) {
      call_node(node, calls::kGroupCopy, copy, std::move(arrived));
    };
    std::unique_ptr<Disk> disk;
    if (plan.log) disk = settings_.open_disk(settings_.data + "/shard-" + std::to_string(shard));
    hosts_[shard] = std::make_unique<ShardHost>(std::move(host), std::move(disk), std::move(links));
  }
}

void ServerCore::listen() {
  transport::ListenerSettings listener;
  listener.address = settings_.listen;
  listener.tls = settings_.tls;
  listener.server.identity = {job_, ""};
  listener.server.shared_memory = settings_.shared_memory;
  listener.server.limits = limits_of(settings_.largest_message);
  listener.server.whole = whole_;
  listener.server.handler = [this](transport::Request request, transport::Reply reply) {
    handle(std::move(request), std::move(reply));
  };
  listener.log = settings_.log;
  listener_ = std::make_unique<transport::Listener>(std::move(listener));
  address_ = listener_->address();
  advertised_ = settings_.advertise.empty() ? address_ : settings_.advertise;
  transport::Address at = transport::Address::parse(advertised_);
  if (at.host == "0.0.0.0" || at.host == "::") {
    throw UsageError("others can't reach this server at " + advertised_ +
                     ": say under which address they do (--advertise HOST:PORT)");
  }
  if (at.port == 0) at.port = transport::Address::parse(address_).port;
  advertised_ = at.text();
}

void ServerCore::close() { end(true); }

void ServerCore::end(bool in_order) {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
  coordinator_.reset();  // none of its callbacks runs any more, which use the listener
  listener_.reset();     // nor a handler
  for (const auto& [shard, host] : hosts_) {
    try {
      if (in_order) host->close();
    } catch (const std::exception& error) {
      // The folder then doesn't say that it was closed in order.
      settings_.log.error("shard " + std::to_string(shard) + ": " + message_of(error));
    }
    host->stop();
  }
  later_.stop();
  std::map<std::uint64_t, Peer> peers;
  {
    const std::lock_guard lock(mutex_);
    peers.swap(peers_);
  }
  peers.clear();
  hosts_.clear();
}

Server::Server(ServerSettings settings)
    : core_(std::make_unique<ServerCore>(std::move(settings))) {}
Server::~Server() = default;
void Server::close() { core_->close(); }
std::string Server::address() const { return core_->address(); }
std::string Server::job() const { return core_->job(); }
std::vector<std::uint32_t> Server::shards() const { return core_->shards(); }

}  // namespace convoy::server::host
