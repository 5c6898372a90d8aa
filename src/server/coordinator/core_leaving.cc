// Replicas that are gone, and what becomes of their work.
#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"
#include "server/state/commands.h"

namespace convoy::server::coordinator {

using replication::milliseconds;

namespace {

constexpr std::size_t kMostLostAtOnce =
    20;  // that are found lost in one event: each is some writes
constexpr Time kLeavePatience = milliseconds(5000);

transport::Message command(std::uint32_t shard, Bytes bytes) {
  return calls::command_request(shard, transport::Message::of(std::move(bytes)));
}

}  // namespace

void Core::find_lost() {
  if (now_ < patient_until_) return;
  const Time lease = milliseconds(plan().client_lease_ms);
  std::vector<std::uint64_t> lost;
  for (const auto& [id, client] : clients_) {
    if (client.entry.departed || now_ <= client.heard + lease) continue;
    if (leaving_.contains(client.entry.group)) continue;
    lost.push_back(id);
    if (lost.size() == kMostLostAtOnce) break;
  }
  for (const std::uint64_t id : lost) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) continue;
    tell(Tell::Level::warning, "client " + std::to_string(id) + " ('" + found->second.entry.name +
                                   "') was not heard for " +
                                   std::to_string((now_ - found->second.heard) / 1000) +
                                   " ms and is taken for dead");
    if (!knows_end(found->second)) lost_at_ = now_;
    lose(id);
  }
}

// Who has heard that the job is over may end without a word. With one process of a replica all of
// them are lost.
bool Core::knows_end(const ClientState& client) const {
  if (client.entry.role != ClientRole::replica) return client.knows_end;
  const auto& all = groups_.at(client.entry.group).clients;
  return std::all_of(all.begin(), all.end(),
                     [&](const auto& each) { return clients_.at(each.second).knows_end; });
}

void Core::lose(std::uint64_t id) {
  const ClientState& client = clients_.at(id);
  if (client.entry.role == ClientRole::replica) return begin_leaving(client.entry.group);
  clients_.erase(id);
  remove(client_key(id));
  drop_cuts_of(id);
  batch_held_.erase(id);
}

void Core::begin_leaving(std::uint64_t id) {
  GroupState& group = groups_.at(id);
  if (group.leaving) return;
  group.leaving = std::make_unique<Leaving>();
  leaving_.insert(id);
  if (batch_) batch_->desk.leave(now_, id);
  put_group(id);
  for (const auto& [member, client] : group.clients) drop_cuts_of(client);
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
    if (shards_[shard].configuration.epoch == 0) continue;  // nobody was ever there
    for (const auto& [member, client] : group.clients) group.leaving->open[{shard, client}];
  }
  if (group.leaving->open.empty()) return resolve(id);
  group.leaving->asked = true;
  // Not before it is known that this coordinator is the one that may say so.
  when_stored([this, id] {
    const auto found = groups_.find(id);
    if (found == groups_.end() || !found->second.leaving) return;
    found->second.leaving->stored = true;
    go_on_leaving(id);
  });
}

// Each shard is asked until it answers; the others don't wait for it.
void Core::go_on_leaving(std::uint64_t id) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || !found->second.leaving || !found->second.leaving->stored) return;
  for (auto& [whom, one] : found->second.leaving->open) {
    if (one.asked || now_ < one.due) continue;
    const auto [shard, client] = whom;
    one.asked = ask(shard, calls::kCommand, command(shard, leave_command(client)), kLeavePatience,
                    [this, id, shard = shard, client = client](const calls::Answered* answer,
                                                               const std::string&) {
                      left(id, shard, client, answer);
                    });
    if (!one.asked) one.due = now_ + options_.retry;
  }
}

void Core::left(std::uint64_t id, std::uint32_t shard, std::uint64_t client,
                const calls::Answered* answer) {
  const auto found = groups_.find(id);
  if (found == groups_.end() || !found->second.leaving) return;
  Leaving& leaving = *found->second.leaving;
  const auto one = leaving.open.find({shard, client});
  if (one == leaving.open.end()) return;
  one->second.asked = false;
  one->second.due = now_ + options_.retry;
  if (answer == nullptr ||
      (answer->outcome != calls::Outcome::done && answer->outcome != calls::Outcome::refused)) {
    return;
  }
  if (answer->outcome == calls::Outcome::done) {
    try {
      const Bytes bytes = answer->content.gather();
      const Reply reply = decode_reply(bytes);
      // A shard that has no part of its vectors never knew it, and says nothing of how far it is.
      if (reply.status == Status::done) {
        const Progress progress = read_progress(reply);
        leaving.any = true;
        leaving.least = std::min(leaving.least, progress);
        leaving.most = std::max(leaving.most, progress);
      }
    } catch (const UsageError& error) {
      tell(Tell::Level::warning, "shard " + std::to_string(shard) + ": " + error.what());
      return;
    }
  }
  leaving.open.erase(one);
  if (leaving.open.empty()) resolve(id);
}

void Core::resolve(std::uint64_t id) {
  GroupState& group = groups_.at(id);
  const Progress least = group.leaving->any ? group.leaving->least : 0;
  Progress most = group.leaving->most;
  const std::span<const Portion> held = ledger_->held(id);
  if (!group.leaving->any && group.leaving->asked && !held.empty()) {
    // Shards have forgotten it, or never knew it: perhaps they have everything.
    most = held.back().number << 32 | UINT32_MAX;
  }
  const Ledger::Lost lost = ledger_->leave(id, least, most);
  if (cut_) cut_->resolved[id] = least;
  // The first two belong together; clients without a replica mean nothing.
  put(kLedgerKey, ledger_->encode());
  remove(group_key(id));
  std::string name;
  for (const auto& [member, client] : group.clients) {
    if (name.empty()) name = clients_.at(client).entry.name;
    clients_.erase(client);
    remove(client_key(client));
    resolved_.insert(client);
    when_stored([this, client = client] { resolved_.erase(client); });
  }
  groups_.erase(id);
  leaving_.erase(id);
  std::string line = "replica " + std::to_string(id) + " ('" + name + "') has left";
  if (lost.done + lost.rest > 0) {
    line += ": of its portions " + std::to_string(lost.done) + " samples are done, " +
            std::to_string(lost.rest) + " are handed out again";
    if (lost.twice > 0) line += ", " + std::to_string(lost.twice) + " of them used already";
  }
  tell(Tell::Level::info, std::move(line));
}

}  // namespace convoy::server::coordinator
