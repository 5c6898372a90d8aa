#include "tests/server/client/cluster.h"

#include <algorithm>

#include "server/replication/messages.h"
#include "tests/base/patience.h"

namespace convoy::server::client::test {
namespace {

using transport::Message;

std::string address_of(std::uint64_t server) { return "server " + std::to_string(server); }

}  // namespace

Cluster::Cluster(JobPlan plan) : shards_(plan.shards) {
  job_.id = std::string(32, '7');
  job_.plan = std::move(plan);
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
    shards_[shard].state = std::make_unique<ShardState>();
    shards_[shard].desk = std::make_unique<host::BatchDesk>(*shards_[shard].state);
    shards_[shard].primary = servers_of(shard, job_.plan).front();
    job_.configurations.push_back({shard, 1, {shards_[shard].primary, 1}, {}});
  }
  for (std::uint64_t server = 1; server <= job_.plan.servers; ++server) {
    job_.servers.push_back({server, address_of(server)});
    servers_[server] = std::make_unique<transport::test::LocalServer>(server_settings(server));
  }
  coordinator_ = std::make_unique<transport::test::LocalServer>(coordinator_settings());
}

Cluster::~Cluster() {
  coordinator_->stop();
  for (auto& [number, server] : servers_) server->stop();
}

transport::ServerSettings Cluster::server_settings(std::uint64_t server) {
  transport::ServerSettings settings;
  settings.identity = {job_.id, ""};
  settings.handler = [this, server](transport::Request request, transport::Reply reply) {
    on_shard(server, std::move(request), std::move(reply));
  };
  return settings;
}

transport::ServerSettings Cluster::coordinator_settings() {
  transport::ServerSettings settings;
  settings.identity = {std::string(calls::kCoordinator), ""};
  settings.handler = [this](transport::Request request, transport::Reply reply) {
    reply.send(on_coordinator(request.method, request.message));
  };
  return settings;
}

Connectors Cluster::connectors() {
  return [this](const std::string& address) -> std::unique_ptr<transport::Connector> {
    if (address == "coordinator") {
      return std::make_unique<transport::test::LocalConnector>(*coordinator_);
    }
    for (auto& [number, server] : servers_) {
      if (address == address_of(number)) {
        return std::make_unique<transport::test::LocalConnector>(*server);
      }
    }
    throw UsageError("there is no " + address);
  };
}

ClientOptions Cluster::options(const std::string& name) {
  ClientOptions options;
  options.coordinator = "coordinator";
  options.name = name;
  options.shared_memory = false;
  options.patience = convoy::test::patience();
  options.log = Log("", Log::Level::error);
  return options;
}

std::unique_ptr<Core> Cluster::client(const std::string& name) { return client(options(name)); }

std::unique_ptr<Core> Cluster::client(ClientOptions options) {
  return std::make_unique<Core>(std::move(options), connectors());
}

void Cluster::set_address(std::uint64_t server, const std::string& address) {
  const std::lock_guard lock(mutex_);
  for (calls::ServerAddress& each : job_.servers) {
    if (each.server == server) each.address = address;
  }
}

void Cluster::set_up(std::uint64_t server, bool up) {
  servers_.at(server)->set_up(up);
  if (!up) servers_.at(server)->cut();
}

void Cluster::set_coordinator_up(bool up) {
  coordinator_->set_up(up);
  if (!up) coordinator_->cut();
}

void Cluster::forget(std::uint64_t client) {
  {
    const std::lock_guard lock(mutex_);
    clients_.at(client).lost = true;
  }
  for (Shard& shard : shards_) give(shard, leave_command(client));
}

void Cluster::move(std::uint32_t shard, std::uint64_t server, bool told) {
  {
    const std::lock_guard lock(shards_[shard].mutex);
    shards_[shard].primary = server;
    shards_[shard].hint = told;
  }
  if (!told) return;
  const std::lock_guard lock(mutex_);
  replication::Configuration& now = job_.configurations[shard];
  now = {shard, now.epoch + 1, {server, 1}, {}};
}

void Cluster::end(const std::string& why) {
  const std::lock_guard lock(mutex_);
  job_.ended = why;
}

std::vector<float> Cluster::values(const Layout& layout, std::uint32_t vector,
                                   std::uint32_t array) {
  std::vector<float> values(layout.description().vectors[vector].elements);
  for (const Place& place : layout.of_vector(vector)) {
    shard(place.shard)
        .fetch({place.slice, array, 0, place.size}, Encoding::f32,
               std::as_writable_bytes(std::span(values).subspan(place.begin, place.size)));
  }
  return values;
}

std::uint64_t Cluster::requests(const std::string& method) const {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(method);
  return found == requests_.end() ? 0 : found->second;
}

std::set<std::uint64_t> Cluster::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

ReplicaReport Cluster::reported() const {
  const std::lock_guard lock(mutex_);
  return reported_;
}

calls::JobState Cluster::job() const {
  const std::lock_guard lock(mutex_);
  return job_;
}

std::vector<calls::LeaseRequest> Cluster::leases() const {
  const std::lock_guard lock(mutex_);
  return leases_;
}

std::vector<std::uint64_t> Cluster::steps_before_leases() const {
  const std::lock_guard lock(mutex_);
  return steps_before_leases_;
}

// --- shards ---

Message Cluster::give(Shard& shard, std::span<const std::byte> command) {
  const std::lock_guard lock(shard.applying);
  return Message::of(shard.state->apply(shard.state->applied() + 1, command));
}

calls::Answered Cluster::fetch(Shard& shard, const calls::FetchRequest& request) {
  calls::Answered answer;
  try {
    calls::Fetched fetched;
    for (std::size_t i = 0; i < request.ranges.size(); ++i) {
      const FetchRange& range = request.ranges[i];
      Bytes bytes(encoded_size(request.encoding, range.size));
      fetched.versions.push_back(
          request.cut != 0 ? shard.state->fetch_cut(request.cut, range, request.encoding, bytes)
                           : shard.state->fetch(range, request.encoding, bytes));
      fetched.sent.push_back(request.unless.empty() ||
                             fetched.versions.back() != request.unless[i]);
      if (fetched.sent.back()) fetched.values.append(Message::of(std::move(bytes)));
    }
    fetched.index = shard.state->applied();
    answer.content = encode(fetched);
  } catch (const UsageError& error) {
    answer.outcome = calls::Outcome::refused;
    answer.reason = error.what();
  }
  return answer;
}

void Cluster::forget_groups(std::uint32_t shard) {
  const std::lock_guard lock(shards_[shard].applying);
  shards_[shard].desk = std::make_unique<host::BatchDesk>(*shards_[shard].state);
}

// As a host that has no backup.
std::optional<calls::Answered> Cluster::carry_out_batch(Shard& shard, const std::string& method,
                                                        const Message& request) {
  const std::unique_lock lock(shard.applying);
  host::BatchDesk& desk = *shard.desk;
  if (method == calls::kDots) return desk.dots(calls::decode_dots(request));
  if (method == calls::kVector) return desk.vector(calls::decode_vector(request));
  if (method == calls::kVectors) return desk.vectors();
  if (method == calls::kMissing) return desk.missing(calls::decode_evaluation(request));
  if (method == calls::kGroup) {
    const Bytes bytes = request.gather();
    auto added = desk.add(calls::decode_group(bytes));
    if (auto* answer = std::get_if<calls::Answered>(&added)) return std::move(*answer);
    calls::Answered kept;
    kept.content = calls::encode(GroupAnswer::kept);
    return kept;
  }
  if (method != calls::kSeal) return std::nullopt;
  auto made = desk.seal(calls::decode_seal(request));
  if (auto* answer = std::get_if<calls::Answered>(&made)) return std::move(*answer);
  calls::Answered sealed;
  ShardState& state = *shard.state;
  sealed.content = Message::of(state.apply(state.applied() + 1, std::get<Bytes>(made)));
  desk.look();
  return host::BatchDesk::sealed(std::move(sealed));
}

calls::Answered Cluster::carry_out(Shard& shard, const std::string& method,
                                   const Message& request) {
  calls::Answered answer;
  if (auto batch = carry_out_batch(shard, method, request)) return std::move(*batch);
  if (method == calls::kCommand) {
    answer.content = give(shard, calls::decode_command(request).gather());
  } else if (method == calls::kFetch) {
    answer = fetch(shard, calls::decode_fetch(request));
  } else {
    const ShardStatus status = shard.state->status();
    calls::ShardReport report;
    report.role = static_cast<std::uint8_t>(replication::Role::primary);
    report.server = report.primary = shard.primary;
    report.round = status.round;
    report.staleness = status.staleness;
    if (on_report) on_report(static_cast<std::uint32_t>(&shard - shards_.data()), report);
    answer.content = encode(report);
  }
  return answer;
}

void Cluster::on_shard(std::uint64_t server, transport::Request request, transport::Reply reply) {
  const std::uint32_t number = calls::shard_of(request.message);
  Shard& shard = shards_.at(number);
  {
    const std::lock_guard lock(mutex_);
    ++requests_[request.method];
  }
  calls::Answered answer;
  {
    const std::lock_guard lock(shard.mutex);
    if (shard.primary != server) {
      answer.outcome = calls::Outcome::not_primary;
      answer.primary = shard.hint ? shard.primary : 0;
    }
  }
  if (answer.outcome == calls::Outcome::not_primary) {
    if (request.method == calls::kReport) {  // whoever has the shard answers
      calls::ShardReport report;
      report.role = static_cast<std::uint8_t>(replication::Role::backup);
      report.server = server;
      report.primary = answer.primary;
      report.round = shard.state->status().round;
      answer = {};
      answer.content = encode(report);
    }
    return reply.send(encode(answer));
  }
  const Fault now = fault ? fault(server, number, request.method) : Fault::none;
  if (now == Fault::none || now == Fault::lost_after || now == Fault::twice ||
      now == Fault::unknown_after) {
    answer = carry_out(shard, request.method, request.message);
  }
  switch (now) {
    case Fault::none:
      break;
    case Fault::lost_before:
    case Fault::lost_after: {
      {
        const std::lock_guard lock(mutex_);
        unanswered_.push_back(std::move(reply));
      }
      return servers_.at(server)->cut();
    }
    case Fault::twice:
      answer = carry_out(shard, request.method, request.message);
      break;
    case Fault::unknown_before:
    case Fault::unknown_after:
      answer = {calls::Outcome::unknown, server, "no longer primary", {}};
      break;
    case Fault::busy:
      answer = {calls::Outcome::busy, server, "no room", {}};
      break;
    case Fault::refused:
      answer = {calls::Outcome::refused, server, "not today", {}};
      break;
    case Fault::failed:
      return reply.fail("the server is ending");
    case Fault::silence: {
      const std::lock_guard lock(mutex_);
      unanswered_.push_back(std::move(reply));
      return;
    }
  }
  reply.send(encode(answer));
}

// --- the coordinator ---

server::Cut Cluster::make_cut() {
  const std::uint64_t id = ++last_cut_;
  server::Cut cut;
  cut.id = id;
  for (Shard& shard : shards_) {
    give(shard, cut_command(id));
    for (const std::uint64_t version : shard.state->status().versions) {
      cut.version = std::max(cut.version, version);
    }
  }
  return cut;
}

Message Cluster::on_coordinator(const std::string& method, const Message& request) {
  const std::lock_guard lock(mutex_);
  ++requests_[method];
  if (method == calls::kJob) return encode(job_);
  if (method == calls::kDescribe) {
    const JobDescription description = calls::decode_description(request);
    if (job_.description) {
      const std::string problem = difference(description, *job_.description);
      if (!problem.empty()) throw UsageError(problem);
    }
    job_.description = description;
    return calls::encode_nothing();
  }
  if (method == calls::kInitialized) {
    job_.initialized = true;
    return calls::encode_nothing();
  }
  if (method == calls::kJoin) {
    calls::decode_client_hello(request);
    const std::uint64_t id = 100 + clients_.size();
    clients_[id] = {};
    return encode(calls::ClientWelcome{id, job_.plan.client_lease_ms});
  }
  if (method == calls::kBeat) {
    const calls::Beat beat = calls::decode_beat(request);
    Known& client = clients_.at(beat.client);
    if (!client.lost && beat.number == client.beat + 1) {
      client.beat = beat.number;
      add(reported_, beat.report);
    } else if (!client.lost && beat.number != client.beat) {
      throw UsageError("beat " + std::to_string(beat.number) + " after " +
                       std::to_string(client.beat));
    }
    if (deaf_to_beats || (deaf_to_reports && beat.report.steps != 0)) throw Failure("not heard");
    return encode(calls::BeatAnswer{!client.lost, job_.ended});
  }
  if (method == calls::kLease) {
    leases_.push_back(calls::decode_lease_request(request));
    steps_before_leases_.push_back(reported_.steps);
    const Known& client = clients_.at(leases_.back().client);
    if (client.lost)
      return encode(calls::LeaseAnswer{calls::LeaseAnswer::Kind::unknown_client, {}, 0, ""});
    return encode(on_lease(leases_.back()));
  }
  if (method == calls::kLeave) {
    const std::uint64_t client = calls::decode_client_request(request).client;
    left_.insert(client);
    for (Shard& shard : shards_) give(shard, leave_command(client));
    return calls::encode_nothing();
  }
  // As the coordinator: whoever was taken for dead has no cuts, and ends nothing.
  const auto require = [&](std::uint64_t client) {
    if (clients_.at(client).lost) throw UsageError("it has to join again");
  };
  if (method == calls::kMakeCut) {
    require(calls::decode_client_request(request).client);
    if (refuse_cuts) throw Failure("no cut came about");
    return calls::encode(make_cut());
  }
  if (method == calls::kDropCut) {
    const std::uint64_t cut = calls::decode_drop_cut(request).cut;
    for (Shard& shard : shards_) give(shard, drop_cut_command(cut));
    return calls::encode_nothing();
  }
  if (method == calls::kEnd) {
    const calls::EndRequest end = calls::decode_end(request);
    require(end.client);
    job_.ended = end.why;
    return calls::encode_nothing();
  }
  if (method == calls::kProgress) {
    JobProgress progress;
    progress.samples = 12;
    return calls::encode(progress);
  }
  if (method == calls::kStatus) return calls::encode_text("{}");
  throw UsageError("no method is called " + method);
}

}  // namespace convoy::server::client::test
