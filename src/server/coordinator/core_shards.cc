// What a coordinator asks shards.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"
#include "server/state/commands.h"

namespace convoy::server::coordinator {

using replication::milliseconds;

namespace {
constexpr std::size_t kMostRemoved = 50;  // of unknown clients, at once on a shard
constexpr std::size_t kMostUnknownCuts = 100;
constexpr Time kShardPatience = milliseconds(3000);
constexpr Time kStuck = milliseconds(5000);  // until it is said: servers start one after the other
}  // namespace

bool Core::ask(std::uint32_t shard, std::string_view method, transport::Message request,
               Time patience, Said said) {
  const auto server = servers_.find(shards_[shard].configuration.primary.node);
  if (server == servers_.end() || server->second.hello.address.empty()) return false;
  const std::uint64_t id = next_ask_++;
  asked_.emplace(id, std::move(said));
  effects_.emplace_back(AskServer{id, server->second.hello.address, std::string(method),
                                  std::move(request), patience});
  return true;
}

Effects Core::answered(Time now, std::uint64_t id, const std::optional<transport::Message>& answer,
                       const std::string& problem) {
  at(now);
  const auto found = asked_.find(id);
  if (found == asked_.end()) return done();
  const Said said = std::move(found->second);
  asked_.erase(found);
  if (!answer) {
    said(nullptr, problem);
    return done();
  }
  std::optional<calls::Answered> answered;
  std::string why;
  try {
    answered = calls::decode_answered(*answer);
  } catch (const UsageError& error) {
    why = error.what();
  }
  said(answered ? &*answered : nullptr, why);
  return done();
}

// Waiting is safe, but may be for ever: somebody has to know.
void Core::find_stuck() {
  for (std::uint32_t number = 0; number < plan().shards; ++number) {
    ShardState& shard = shards_[number];
    const replication::Configuration& current = shard.configuration;
    if (current.epoch == 0 || now_ < milliseconds(plan().server_lease_ms)) continue;
    const auto nodes = authority_->standings(number);
    const bool stuck =
        !rules_.successor(current, nodes, false) && rules_.successor(current, nodes, true);
    if (!stuck) {
      shard.stuck_since.reset();
      continue;
    }
    if (!shard.stuck_since) shard.stuck_since = now_;
    if (now_ < *shard.stuck_since + kStuck || shard.told_stuck == current.epoch) continue;
    shard.told_stuck = current.epoch;
    std::string here, away;
    for (const replication::Member& member : {current.primary, current.backup}) {
      if (!member) continue;
      const bool is_here = std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
        return node.now.node == member.node && node.fresh;
      });
      (is_here ? here : away) += " " + std::to_string(member.node);
    }
    tell(Tell::Level::warning,
         "shard " + std::to_string(number) + " has no primary: server" + here +
             " came back without all that it had acknowledged, after a power cut or since its log "
             "is damaged, and " +
             (away.empty() ? "nobody else has it"
                           : "server" + away + ", which may have it, is away") +
             ". convoy train --resume CHECKPOINT goes on from a checkpoint, a coordinator with "
             "--accept-loss " +
             std::to_string(number) + " with what is left");
  }
}

void Core::poll() {
  for (std::uint32_t number = 0; number < plan().shards; ++number) {
    ShardState& shard = shards_[number];
    if (shard.polling || now_ < shard.next_poll) continue;
    shard.next_poll = now_ + options_.poll;
    shard.polling =
        ask(number, calls::kReport, calls::report_request(number), kShardPatience,
            [this, number](const calls::Answered* answer, const std::string&) {
              shards_[number].polling = false;
              if (answer == nullptr || answer->outcome != calls::Outcome::done) return;
              try {
                take_report(number, calls::decode_report(answer->content));
              } catch (const UsageError& error) {
                tell(Tell::Level::warning, "shard " + std::to_string(number) + ": " + error.what());
              }
            });
  }
}

void Core::take_report(std::uint32_t number, calls::ShardReport report) {
  ShardState& shard = shards_[number];
  for (const ClientStatus& status : report.clients) {
    if (!clients_.contains(status.id)) continue;
    Seen& seen = seen_[status.id];
    seen = {std::max(seen.sequence, status.client.sequence), now_};
  }
  std::erase_if(seen_, [&](const auto& each) { return !clients_.contains(each.first); });
  shard.report = std::move(report);
  shard.reported = now_;
  remove_unknown(number);
  // Cuts that came about after all shards had been told to drop them.
  for (const std::uint64_t cut : shard.report->cuts) {
    if (!cuts_.contains(cut) && cuts_.size() < kMostUnknownCuts) drop(cut);
  }
}

// Clients that came to a shard after they had been told to leave it: in rounds everybody would wait
// for them. And those that have left for good.
//
// A later coordinator may have clients that this one knows nothing of, so shards are told behind a
// write, which only the one whose term it is can make.
void Core::remove_unknown(std::uint32_t number) {
  ShardState& shard = shards_[number];
  std::vector<std::pair<std::uint64_t, Bytes>> commands;
  for (const ClientStatus& status : shard.report->clients) {
    if (shard.removing.size() >= kMostRemoved) break;
    const std::uint64_t id = status.id;
    if (clients_.contains(id) || resolved_.contains(id) || shard.removing.contains(id)) continue;
    commands.emplace_back(id, status.client.member ? leave_command(id) : forget_command(id));
    shard.removing.insert(id);
  }
  if (commands.empty()) return;
  put_state();
  when_stored([this, number, commands = std::move(commands)] {
    for (const auto& [id, bytes] : commands) {
      const bool asked = ask(
          number, calls::kCommand, calls::command_request(number, transport::Message::of(bytes)),
          kShardPatience, [this, number, id = id](const calls::Answered*, const std::string&) {
            shards_[number].removing.erase(id);  // the next report tells
          });
      if (!asked) shards_[number].removing.erase(id);
    }
  });
}

Facts Core::facts() const {
  const auto seconds = [](Time time) { return static_cast<double>(time) / 1e6; };
  Facts facts;
  facts.job = job_.id;
  if (description_) facts.model = description_->model;
  facts.plan = &job_.plan;
  facts.samples = ledger_ ? ledger_->limit() : plan().samples;
  facts.term = options_.term;
  facts.up_s = seconds(now_);
  facts.described = description_.has_value();
  facts.initialized = state_.initialized;
  facts.warm = (plan().warm_samples != 0 || plan().warm_seconds > 0) && !state_.warm_over;
  for (const ShardState& shard : shards_) {
    facts.shards.push_back(
        {shard.configuration, shard.report, shard.report ? seconds(now_ - shard.reported) : 0});
  }
  for (std::uint64_t number = 1; number <= plan().servers; ++number) {
    ServerFacts server;
    server.server = number;
    if (const auto found = servers_.find(number); found != servers_.end()) {
      server.address = found->second.hello.address;
      if (found->second.heard) server.heard_s = seconds(now_ - *found->second.heard);
    }
    facts.servers.push_back(std::move(server));
  }
  for (const auto& [id, client] : clients_) {
    ClientFacts each;
    each.client = id;
    each.name = client.entry.name;
    each.role = client.entry.role;
    each.replica = client.entry.group;
    each.member = client.entry.member;
    each.leaving = client.entry.departed || leaving_.contains(client.entry.group);
    each.heard_s = seconds(now_ - client.heard);
    each.samples_per_s = client.rate.per_second(now_);
    each.samples = client.samples;
    each.steps = client.steps;
    if (ledger_ && client.entry.group == id) {
      const auto held = ledger_->held(id);
      each.leases.assign(held.begin(), held.end());
      facts.handed_portions += held.size();
    }
    facts.clients.push_back(std::move(each));
  }
  facts.cuts = cuts_.size();
  facts.batch = batch_facts();
  if (ledger_) {
    facts.epoch_samples = ledger_->epoch_length();
    facts.left_to_redo = ledger_->left_to_redo();
  }
  facts.progress = progress();
  return facts;
}

}  // namespace convoy::server::coordinator
