#include "server/coordinator/core.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/core_state.h"

namespace convoy::server::coordinator {

using replication::milliseconds;

namespace {

// The number behind a prefix of keys.
std::uint64_t number_in(const std::string& key, std::size_t begin) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(key.data() + begin, key.data() + key.size(), number);
  if (error != std::errc{} || end != key.data() + key.size()) {
    throw Failure("the coordinator's store has a key '" + key + "' that no coordinator made");
  }
  return number;
}

constexpr std::uint64_t kSkippedClients = std::uint64_t{1} << 20;

// So long after a client that hasn't heard of the end was taken for dead it is told, too: its host
// may only have been cut off.
constexpr Time kReturn = milliseconds(60'000);

}  // namespace

Core::Core(Time now, CoreOptions options, const std::map<std::string, Value>& stored)
    : options_(std::move(options)), clock_(now) {
  try {
    load(stored);
  } catch (const UsageError& error) {
    throw Failure(error.what());
  }
  const Time lease = milliseconds(plan().server_lease_ms);
  replication::AuthorityOptions authority;
  authority.lease = lease;
  authority.fresh = lease * 7 / 20;
  authority.retry_interval = std::max<Time>(lease / 4, milliseconds(50));
  authority_ = std::make_unique<replication::Authority>(now_, options_.life, authority, rules_);
  patient_until_ = milliseconds(plan().client_lease_ms);
}

Core::~Core() = default;

void Core::load(const std::map<std::string, Value>& stored) {
  const auto value = [&](const char* key) -> const Bytes* {
    const auto found = stored.find(key);
    return found == stored.end() ? nullptr : &found->second.bytes;
  };
  if (const Bytes* bytes = value(kPlanKey)) {
    job_ = decode_job(*bytes);
    // In what may change while a job goes on.
    const std::string& recipe = options_.job.plan.recipe;
    if (!recipe.empty() && recipe != job_.plan.recipe) {
      job_.plan.recipe = recipe;
      put(kPlanKey, encode(job_), Survives::power);
    }
  } else {
    job_ = options_.job;
    check(job_.plan);
    put(kPlanKey, encode(job_), Survives::power);
  }
  shards_.resize(plan().shards);
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
    shards_[shard].configuration.shard = shard;
    const auto found = stored.find(ConfigurationKeeper::key_of(shard));
    if (found != stored.end()) {
      shards_[shard].configuration = ConfigurationKeeper::decode(found->second);
    }
  }
  if (const Bytes* bytes = value(kDescriptionKey)) description_ = decode_description(*bytes);
  if (const Bytes* bytes = value(kStateKey)) state_ = decode_state(*bytes);
  if (const Bytes* bytes = value(kReportedKey)) reported_ = decode_reported(*bytes);
  if (const Bytes* bytes = value(kServersKey)) {
    for (auto& [number, hello] : decode_servers(*bytes)) servers_[number].hello = hello;
  }
  if (const Bytes* bytes = value(kCutsKey)) cuts_ = decode_cuts(*bytes);
  if (description_) {
    ledger_.emplace(plan(), description_->epoch_samples);
    if (const Bytes* bytes = value(kLedgerKey)) ledger_->decode(*bytes);
    // A power cut may have taken the last changes, and with them numbers that are in use.
    ledger_->skip_numbers();
    put(kLedgerKey, ledger_->encode());
    batch_ = new_batch(*ledger_);
  }
  load_batch(stored);
  state_.next_client += stored.empty() ? 0 : kSkippedClients;
  put_state(Survives::power);
  load_clients(stored);
  // Whether somebody was taken for dead before isn't stored.
  if (!state_.ended.empty()) ended_at_ = lost_at_ = now_;
}

void Core::load_clients(const std::map<std::string, Value>& stored) {
  const std::string replicas = group_key(0).substr(0, group_key(0).size() - 1);
  const std::string clients = client_key(0).substr(0, client_key(0).size() - 1);
  for (auto at = stored.lower_bound(replicas);
       at != stored.end() && at->first.starts_with(replicas); ++at) {
    const std::uint64_t id = number_in(at->first, replicas.size());
    const GroupEntry entry = decode_group(at->second.bytes);
    GroupState& group = groups_[id];
    group.members = entry.members;
    if (!ledger_) throw Failure("the coordinator's store has replicas without a ledger");
    if (!entry.portions.empty()) ledger_->decode(id, entry.portions);
    if (entry.leaving) leaving_.insert(id);
    // Who has samples of a warm start goes on alone.
    if (!entry.leaving && !ledger_->held(id).empty()) warm_group_ = id;
  }
  for (auto at = stored.lower_bound(clients); at != stored.end() && at->first.starts_with(clients);
       ++at) {
    const std::uint64_t id = number_in(at->first, clients.size());
    ClientState client;
    client.entry = decode_client(at->second.bytes);
    client.heard = now_;
    if (client.entry.role == ClientRole::replica) {
      const auto group = groups_.find(client.entry.group);
      if (group == groups_.end()) {  // it was resolved
        remove(at->first);
        continue;
      }
      group->second.clients[client.entry.member] = id;
    }
    clients_.emplace(id, std::move(client));
  }
}

Effects Core::begin() {
  for (const std::uint32_t shard : options_.accept_loss) {
    if (shard >= plan().shards) {
      throw UsageError("there is no shard " + std::to_string(shard) + "; the job has " +
                       std::to_string(plan().shards));
    }
    carry_out(authority_->accept_loss(now_, shard));
  }
  for (const std::uint64_t group : std::set<std::uint64_t>(leaving_)) begin_leaving(group);
  // Groups without a client can't be heard of any more.
  std::vector<std::uint64_t> empty;
  for (const auto& [id, group] : groups_) {
    if (group.clients.empty() && !group.leaving) empty.push_back(id);
  }
  for (const std::uint64_t id : empty) begin_leaving(id);
  // What the coordinator before was making may come about yet, on any shard.
  std::set<std::uint32_t> all;
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) all.insert(shard);
  for (const auto& [id, cut] : std::map<std::uint64_t, CutEntry>(cuts_)) {
    if (cut.phase != CutEntry::Phase::made) {
      drop(id, all);
    } else if (!clients_.contains(cut.client)) {
      drop(id);
    }
  }
  return done();
}

void Core::at(Time now) {
  const Time passed = now > clock_ ? now - clock_ : 0;
  clock_ = now;
  now_ += passed;
  // It was paused, or the clock jumped: nobody could be heard meanwhile.
  const Time lease = milliseconds(plan().client_lease_ms);
  if (passed > lease / 2) patient_until_ = now_ + lease;
}

Effects Core::done() {
  speak_of_batch();
  while (true) {
    if (!dirty_.empty()) {
      effects_.emplace_back(StoreWrites{++ticket_, std::exchange(dirty_, {}),
                                        std::exchange(survives_, Survives::process)});
      dirty_keys_.clear();
    }
    std::vector<Later> after = std::exchange(after_event_, {});
    if (after.empty()) break;
    for (Later& each : after) {
      each.ticket = ticket_;
      if (ticket_ > stored_) {
        when_stored_.push_back(std::move(each));
      } else {
        each.what();
      }
    }
  }
  return std::exchange(effects_, {});
}

void Core::tell(Tell::Level level, std::string line) {
  effects_.emplace_back(Tell{level, std::move(line)});
}

void Core::when_stored(std::function<void()> what, CallId answers) {
  after_event_.push_back({std::move(what), answers});
}

void Core::abandoned(const std::set<CallId>& calls) {
  std::erase_if(when_stored_, [&](const Later& each) {
    return each.answers != 0 && calls.contains(each.answers);
  });
}

void Core::reply(CallId call, transport::Message message) {
  when_stored(
      [this, call, message = std::move(message)] {
        effects_.emplace_back(AnswerCall{call, message, {}});
      },
      call);
}

void Core::reply_now(CallId call, transport::Message message) {
  effects_.emplace_back(AnswerCall{call, std::move(message), {}});
}

void Core::put(const std::string& key, Bytes value, Survives survives) {
  survives_ = std::max(survives_, survives);
  const auto [found, is_new] = dirty_keys_.try_emplace(key, dirty_.size());
  if (is_new) dirty_.push_back({key, std::nullopt, std::nullopt});
  dirty_[found->second].value = std::move(value);
}

void Core::remove(const std::string& key) {
  const auto [found, is_new] = dirty_keys_.try_emplace(key, dirty_.size());
  if (is_new) dirty_.push_back({key, std::nullopt, std::nullopt});
  dirty_[found->second].value.reset();
}

void Core::put_state(Survives survives) { put(kStateKey, encode(state_), survives); }

void Core::put_cuts() { put(kCutsKey, encode(cuts_)); }

void Core::put_servers() {
  std::map<std::uint64_t, calls::ServerHello> servers;
  for (const auto& [number, server] : servers_) {
    if (!server.hello.address.empty()) servers[number] = server.hello;
  }
  put(kServersKey, encode(servers));
}

Effects Core::stored(Time now, std::uint64_t ticket) {
  at(now);
  stored_ = std::max(stored_, ticket);
  while (!when_stored_.empty() && when_stored_.front().ticket <= stored_) {
    const auto what = std::move(when_stored_.front().what);
    when_stored_.pop_front();
    what();
  }
  return done();
}

Effects Core::tick(Time now) {
  at(now);
  carry_out(authority_->tick(now_));
  find_stuck();
  find_lost();
  for (const std::uint64_t group : std::set<std::uint64_t>(leaving_)) go_on_leaving(group);
  poll();
  tick_cuts();
  go_on_dropping();
  return done();
}

bool Core::over() const {
  if (!ended_at_) return false;
  const Time grace = 2 * milliseconds(std::max(plan().client_lease_ms, plan().server_lease_ms));
  if (now_ < *ended_at_ + grace) return false;
  if (lost_at_ && now_ < *lost_at_ + kReturn) return false;
  return std::all_of(clients_.begin(), clients_.end(), [&](const auto& each) {
    return each.second.entry.departed || leaving_.contains(each.second.entry.group);
  });
}

}  // namespace convoy::server::coordinator
