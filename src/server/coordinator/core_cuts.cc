// Cuts of all shards: of each client, all of them have the same last push.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"
#include "server/service/shard_calls.h"
#include "server/state/commands.h"

namespace convoy::server::coordinator {

using calls::Answered;
using calls::Outcome;
using replication::milliseconds;

namespace {

constexpr std::size_t kMostCuts = 2;  // of a client at a time; a shard has room for 4
constexpr Time kCutPatience = milliseconds(3000);

std::string about(std::uint32_t shard, const std::string& what) {
  return "shard " + std::to_string(shard) + ": " + what;
}

std::string text_of(const LastPush& push) {
  return "push " + std::to_string(push.sequence) + " (portion " +
         std::to_string(push.progress >> 32) + ", " + std::to_string(push.progress & 0xffffffff) +
         " samples)";
}

// What there is to say of a call that didn't do what it should.
std::string why_not(const Answered* answer, const std::string& problem) {
  if (answer == nullptr) return problem;
  if (!answer->reason.empty()) return answer->reason;
  return answer->outcome == Outcome::not_primary ? "it isn't primary" : "it can't now";
}

}  // namespace

void Core::on_make_cut(CallId call, const transport::Message& request) {
  const std::uint64_t client = calls::decode_client_request(request).client;
  require(client);
  if (!state_.initialized) throw UsageError("the parameters have no values yet: there is no cut");
  // One that it has forgotten, since the answer got lost.
  std::vector<std::uint64_t> made;
  for (const auto& [id, cut] : cuts_) {
    if (cut.client == client && cut.phase == CutEntry::Phase::made) made.push_back(id);
  }
  for (std::size_t i = 0; i + kMostCuts <= made.size(); ++i) drop(made[i]);
  // One request of a client at a time: it has given up those before.
  const auto replace = [&](WaitingCut& request) {
    effects_.emplace_back(AnswerCall{request.call, {}, "the client has asked again"});
    request.call = call;
  };
  for (WaitingCut& each : waiting_cuts_) {
    if (each.client == client) return replace(each);
  }
  if (cut_ && cut_->request.client == client && !cut_->orphan) {
    replace(cut_->request);
    cut_->began = now_;
    // What is under way may lack what the client knows of by now.
    if (cut_->phase == CutRun::Phase::pausing) return;
    if (cut_->phase == CutRun::Phase::cutting) drop(cut_->id, all_shards());
    return again("the client has asked again");
  }
  waiting_cuts_.push_back({call, client});
  next_cut();
}

std::set<std::uint32_t> Core::all_shards() const {
  std::set<std::uint32_t> all;
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) all.insert(shard);
  return all;
}

void Core::next_cut() {
  if (cut_ || waiting_cuts_.empty()) return;
  cut_ = std::make_unique<CutRun>();
  cut_->request = waiting_cuts_.front();
  cut_->began = now_;
  waiting_cuts_.pop_front();
  begin_attempt();
}

void Core::begin_attempt() {
  CutRun& run = *cut_;
  run.phase = CutRun::Phase::reporting;
  run.attempt = ++attempts_;
  run.id = 0;
  run.asked = now_;
  run.why.clear();
  run.unknown.clear();
  run.missing = plan().shards;
  run.reports.assign(plan().shards, {});
  run.pushes.assign(plan().shards, {});
  run.before = seen_;
  run.view = ledger_->view();
  run.resolved.clear();
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
    const auto said = [this, shard, attempt = run.attempt](const Answered* answer,
                                                           const std::string& problem) {
      cut_report(attempt, shard, answer, problem);
    };
    if (!ask(shard, calls::kReport, calls::report_request(shard), kCutPatience, said)) {
      return again(about(shard, "nobody serves it now"));
    }
  }
}

void Core::cut_report(std::uint64_t attempt, std::uint32_t shard, const Answered* answer,
                      const std::string& problem) {
  if (!cut_ || cut_->attempt != attempt) return;
  CutRun& run = *cut_;
  --run.missing;
  if (answer != nullptr && answer->outcome == Outcome::done) {
    try {
      run.reports[shard] = calls::decode_report(answer->content);
      if (run.reports[shard].role != static_cast<std::uint8_t>(replication::Role::primary)) {
        run.why = about(shard, "it isn't primary");
      }
      take_report(shard, run.reports[shard]);
    } catch (const UsageError& error) {
      run.why = about(shard, error.what());
    }
  } else {
    run.why = about(shard, why_not(answer, problem));
  }
  if (run.missing > 0) return;
  if (!run.why.empty()) return again(run.why);
  ask_cuts();
}

// The pushes that the cut is to have. While shards are asked clients go on, so it is made where
// those that push often will be a moment later; shards hold back what comes after.
std::vector<LastPushes> Core::targets() {
  CutRun& run = *cut_;
  std::map<std::uint64_t, std::uint64_t> last;  // by replica: its processes push in step
  std::map<std::uint64_t, double> ahead;
  const double window = (0.02 + 1.5e-6 * static_cast<double>(now_ - run.asked)) * run.growth;
  for (const calls::ShardReport& report : run.reports) {
    for (const ClientStatus& status : report.clients) {
      const auto client = clients_.find(status.id);
      if (client == clients_.end() || leaving_.contains(client->second.entry.group)) continue;
      std::uint64_t& sequence = last[client->second.entry.group];
      sequence = std::max(sequence, status.client.sequence);
      const auto before = run.before.find(status.id);
      if (before == run.before.end() || now_ <= before->second.when) continue;
      const double moved = static_cast<double>(status.client.sequence) -
                           static_cast<double>(before->second.sequence);
      const double seconds = static_cast<double>(now_ - before->second.when) * 1e-6;
      double& most = ahead[client->second.entry.group];
      most = std::max(most, moved / seconds * window);
    }
  }
  // In rounds nobody can be ahead of the others.
  const bool rounds = plan().staleness_bound == 0;
  if (rounds) {
    double most = 0;
    for (const auto& [group, expected] : ahead) most = std::max(most, expected);
    for (const auto& [group, sequence] : last) ahead[group] = most;
  }
  // Who has no samples any more pushes nothing, however often until now: at the end of a job shards
  // would wait in vain for what its rate promises.
  if (ledger_->all_handed()) {
    std::erase_if(ahead, [&](const auto& each) {
      return ledger_->all_done() || (!rounds && ledger_->held(each.first).empty());
    });
  }
  // In rounds what a replica catches up with is pushed to some shards alone, and its first push of
  // samples has the number behind all of these.
  const auto target = [&](std::uint64_t reached, std::uint64_t all, double more) {
    if (rounds && all <= calls::kCatchUp && more == 0) return reached;
    return (rounds ? std::max(all, calls::kCatchUp) : all) + static_cast<std::uint64_t>(more);
  };
  std::vector<LastPushes> targets(plan().shards);
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
    for (const ClientStatus& status : run.reports[shard].clients) {
      const auto client = clients_.find(status.id);
      if (client == clients_.end() || !last.contains(client->second.entry.group)) continue;
      const double expected = ahead[client->second.entry.group];
      const double more = expected < 0.25 ? 0 : std::min(std::ceil(expected), 1e6);
      targets[shard].push_back(
          {status.id, target(status.client.sequence, last[client->second.entry.group], more), 0});
    }
  }
  return targets;
}

void Core::ask_cuts() {
  CutRun& run = *cut_;
  run.phase = CutRun::Phase::cutting;
  run.id = options_.term << 32 | next_cut_++;
  cuts_[run.id] = {run.request.client, CutEntry::Phase::making};
  put_cuts();
  run.missing = plan().shards;
  // Once it is known that there may be one, which somebody has to drop.
  when_stored([this, attempt = run.attempt, targets = targets()] {
    if (!cut_ || cut_->attempt != attempt) return;
    for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
      calls::CutRequest request{shard, cut_->id, options_.cut_wait / 1000, targets[shard]};
      const auto said = [this, shard, attempt](const Answered* answer, const std::string& problem) {
        cut_answer(attempt, shard, answer, problem);
      };
      if (!ask(shard, calls::kCut, calls::encode(request), options_.cut_wait + kCutPatience,
               said)) {
        --cut_->missing;
        cut_->why = about(shard, "nobody serves it now");
      }
    }
    if (cut_->missing == 0) compare_cuts();
  });
}

void Core::cut_answer(std::uint64_t attempt, std::uint32_t shard, const Answered* answer,
                      const std::string& problem) {
  if (!cut_ || cut_->attempt != attempt) return;
  CutRun& run = *cut_;
  --run.missing;
  if (answer != nullptr && answer->outcome == Outcome::done) {
    try {
      run.pushes[shard] = calls::decode_pushes(answer->content);
    } catch (const UsageError& error) {
      run.why = about(shard, error.what());
    }
  } else {
    run.why = about(shard, why_not(answer, problem));
    if (answer == nullptr || answer->outcome == Outcome::unknown) run.unknown.insert(shard);
  }
  if (run.missing == 0) compare_cuts();
}

void Core::compare_cuts() {
  CutRun& run = *cut_;
  // By replica: how far it is, the same on all shards and of all its processes, if it lives.
  std::map<std::uint64_t, LastPush> pushes;
  std::map<std::uint64_t, Progress> progress;
  for (std::uint32_t shard = 0; shard < plan().shards && run.why.empty(); ++shard) {
    for (const LastPush& push : run.pushes[shard]) {
      const auto client = clients_.find(push.client);
      if (client == clients_.end() || client->second.entry.role != ClientRole::replica) continue;
      const std::uint64_t group = client->second.entry.group;
      const auto [first, is_first] = pushes.try_emplace(group, push);
      const auto [least, is_new] = progress.try_emplace(group, push.progress);
      least->second = std::min(least->second, push.progress);
      const LastPush& other = first->second;
      const bool none =
          plan().staleness_bound == 0 && std::max(push.sequence, other.sequence) <= calls::kCatchUp;
      const bool same =
          (push.sequence == other.sequence || none) && push.progress == other.progress;
      if (is_first || same || leaving_.contains(group)) continue;
      run.why = about(shard, "replica " + std::to_string(group) + " is at " + text_of(push) +
                                 ", elsewhere at " + text_of(other));
    }
  }
  if (!run.why.empty() || run.orphan) {
    drop(run.id, run.unknown);
    return run.orphan ? end_cut("the client that asked is gone") : again(run.why);
  }
  for (const auto& [group, least] : run.resolved) progress.try_emplace(group, least);
  server::Cut cut;
  cut.id = run.id;
  cut.progress = this->progress();
  run.view.fill(progress, cut.progress);  // what has come to its end since then isn't in it
  for (const calls::ShardReport& report : run.reports) {
    for (const std::uint64_t version : report.versions)
      cut.version = std::max(cut.version, version);
  }
  cuts_[run.id].phase = CutEntry::Phase::made;
  put_cuts();
  reply(run.request.call, calls::encode(cut));
  cut_.reset();
  next_cut();
}

void Core::again(const std::string& why) {
  CutRun& run = *cut_;
  if (run.orphan) return end_cut("the client that asked is gone");
  if (now_ - run.began > options_.cut_patience) return end_cut("no cut came about: " + why);
  run.growth = std::min(run.growth * 2, 64.0);
  run.phase = CutRun::Phase::pausing;
  run.attempt = ++attempts_;  // what is said of this one comes too late
  run.due = now_ + options_.retry / 4;
}

void Core::end_cut(const std::string& problem) {
  effects_.emplace_back(AnswerCall{cut_->request.call, {}, problem});
  cut_.reset();
  next_cut();
}

void Core::tick_cuts() {
  if (cut_ && cut_->phase == CutRun::Phase::pausing && now_ >= cut_->due) begin_attempt();
}

void Core::drop_cuts_of(std::uint64_t client) {
  if (cut_ && cut_->request.client == client) cut_->orphan = true;
  std::erase_if(waiting_cuts_, [&](const WaitingCut& each) {
    if (each.client != client) return false;
    effects_.emplace_back(AnswerCall{each.call, {}, "the client that asked is gone"});
    return true;
  });
  std::vector<std::uint64_t> made;
  for (const auto& [id, cut] : cuts_) {
    if (cut.client == client && cut.phase == CutEntry::Phase::made) made.push_back(id);
  }
  for (const std::uint64_t id : made) drop(id);
}

// Shards in `later` may make it only now, when those that they wait for have come.
void Core::drop(std::uint64_t id, const std::set<std::uint32_t>& later) {
  if (dropping_.contains(id)) return;
  cuts_[id].phase = CutEntry::Phase::dropping;
  put_cuts();
  auto run = std::make_unique<DropRun>();
  for (std::uint32_t shard = 0; shard < plan().shards; ++shard) {
    if (shards_[shard].configuration.epoch == 0) continue;
    run->open[shard].due = later.contains(shard) ? now_ + options_.cut_wait + kCutPatience : now_;
  }
  dropping_.emplace(id, std::move(run));
  when_stored([this, id] {
    const auto found = dropping_.find(id);
    if (found == dropping_.end()) return;
    found->second->stored = true;
    go_on_dropping();
  });
}

void Core::go_on_dropping() {
  for (auto run = dropping_.begin(); run != dropping_.end();) {
    const std::uint64_t id = run->first;
    if (!run->second->stored) {
      ++run;
      continue;
    }
    if (run->second->open.empty()) {
      run = dropping_.erase(run);
      cuts_.erase(id);
      put_cuts();
      continue;
    }
    for (auto& [shard, one] : run->second->open) {
      if (one.asked || now_ < one.due) continue;
      const auto said = [this, id, shard = shard](const Answered* answer, const std::string&) {
        const auto found = dropping_.find(id);
        if (found == dropping_.end()) return;
        auto& open = found->second->open;
        const auto one = open.find(shard);
        if (one == open.end()) return;
        one->second = {false, now_ + options_.retry};
        const bool over = answer != nullptr &&
                          (answer->outcome == Outcome::done || answer->outcome == Outcome::refused);
        if (over) open.erase(one);
      };
      one.asked = ask(shard, calls::kCommand,
                      calls::command_request(shard, transport::Message::of(drop_cut_command(id))),
                      kCutPatience, said);
      if (!one.asked) one.due = now_ + options_.retry;
    }
    ++run;
  }
}

}  // namespace convoy::server::coordinator
