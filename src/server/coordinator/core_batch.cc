// Portions of a batch optimization, and what its method asks for.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"
#include "server/service/portion_calls.h"

namespace convoy::server::coordinator {

using calls::PortionAnswer;

std::optional<GroupOptions> Core::batch_groups() const {
  return batch_ ? std::optional(batch_->groups) : std::nullopt;
}

// Of an epoch's samples, once it is known how many these are. Nothing where the job is none.
std::unique_ptr<Core::BatchWork> Core::new_batch(const Ledger& ledger) const {
  const std::uint64_t samples = ledger.epoch_length(), each = plan().portion;
  if (!options_.batch || samples == 0) return nullptr;
  const std::uint64_t portions = samples / each + (samples % each != 0 ? 1 : 0);
  if (portions > GroupLedger::kMostPortions) {
    throw UsageError("a batch of " + std::to_string(samples) + " samples has " +
                     std::to_string(portions) + " portions of " + std::to_string(each) +
                     "; at most " + std::to_string(GroupLedger::kMostPortions) +
                     " can be handed out: lease larger portions");
  }
  GroupOptions groups;
  groups.portions = static_cast<std::uint32_t>(portions);
  groups.largest = options_.batch->largest;
  groups.backups = options_.batch->backups;
  return std::make_unique<BatchWork>(groups);
}

Core::BatchWork& Core::batch_work() {
  if (batch_) return *batch_;
  throw UsageError(options_.batch ? "the job has not been described yet, or has no samples"
                                  : "the job is no batch optimization: it has no portions");
}

void Core::load_batch(const std::map<std::string, Value>& stored) {
  const auto value = [&](const std::string& key) {
    const auto found = stored.find(key);
    return found == stored.end() ? nullptr : &found->second.bytes;
  };
  if (const Bytes* bytes = value(kBatchStartKey)) set_batch_start(*bytes);
  if (const Bytes* bytes = value(kBatchAnswersKey)) batch_answers_ = *bytes;
  const Bytes* portions = value(kPortionsKey);
  if (!batch_ || portions == nullptr) return;
  GroupLedger& ledger = batch_->desk.ledger();
  ledger.decode(*portions);
  batch_->begun = true;
  for (std::uint32_t block = 0; block * GroupLedger::kBlock < batch_->groups.portions; ++block) {
    if (const Bytes* bytes = value(portions_key(block))) ledger.decode(block, *bytes);
  }
}

void Core::on_portions(CallId call, const transport::Message& message) {
  calls::PortionRequest request = calls::decode_portion_request(message);
  BatchWork& work = batch_work();
  ClientState* client = known(request.client);
  if (client == nullptr) {
    PortionAnswer answer;
    answer.kind = PortionAnswer::Kind::unknown_client;
    return reply(call, calls::encode(answer));
  }
  if (client->entry.role != ClientRole::replica) {
    throw UsageError("client " + std::to_string(request.client) +
                     " is no replica: there are no portions for it");
  }
  const std::uint64_t id = client->entry.group;
  client->knows_end = !state_.ended.empty();
  request.client = id;
  if (const std::string why = why_incomplete(groups_.at(id)); !why.empty()) {
    const auto before = std::find_if(work.early.begin(), work.early.end(),
                                     [&](const auto& each) { return each.request.client == id; });
    if (before != work.early.end()) {  // it was given up
      PortionAnswer wait;
      wait.why = why;
      reply(before->call, calls::encode(wait));
      work.early.erase(before);
    }
    work.early.push_back({call, std::move(request), now_});
    return;
  }
  work.desk.enter(id, clients_.at(groups_.at(id).clients.at(0)).entry.name);
  work.desk.ask(now_, call, request);
  put_batch_changes();
}

void Core::on_watch(CallId call, const transport::Message& request) {
  using Hold = calls::WatchRequest::Hold;
  const calls::WatchRequest watch = calls::decode_watch_request(request);
  if (!options_.batch) throw UsageError("the job is no batch optimization");
  refuse_failed(watch.client);
  if (watch.hold != Hold::keep && require(watch.client).entry.role != ClientRole::evaluator)
    throw UsageError("client " + std::to_string(watch.client) +
                     " is no evaluator: it can hold no vectors");
  if (watch.hold != Hold::keep) batch_held_.erase(watch.client);
  known(watch.client);
  calls::WatchAnswer answer;
  BatchProgress& progress = answer.progress;
  progress.ended = state_.ended;
  progress.method = options_.batch_method;
  progress.term = options_.term;
  progress.time_s = static_cast<double>(now_) / 1e6;
  // Who holds nothing has no use for scalar products, and may ask ten times a second.
  if (watch.hold == Hold::hold) {
    answer.start = batch_start_;
    if (batch_brief_.begun)
      batch_held_[watch.client] = optim::vectors_of(batch_brief_.state, options_.batch_method);
  } else if (!batch_start_.empty()) {
    answer.start = encode(batch_brief_);
  }
  if (const auto facts = batch_facts()) {
    progress.evaluation = facts->evaluation;
    progress.portions = facts->portions;
    progress.now = counts_of(facts->counts);
    progress.iteration = facts->iteration;
    progress.all = facts->all;
    progress.over = facts->over;
    progress.method_bytes = facts->method_bytes;
    progress.portion_bytes = facts->bytes;
    progress.replicas = facts->replicas;
    progress.groups = batch_->desk.journal().after(watch.after, calls::kMostRecords);
  }
  reply(call, calls::encode(answer));  // what it says is stored by then
}

void Core::set_batch_start(Bytes start) {
  batch_brief_ = decode_batch_start(start);
  batch_brief_.state.products.clear();
  batch_start_ = std::move(start);
}

void Core::refuse_failed(std::uint64_t id) {
  if (batch_failed_.empty()) return;
  if (ClientState* client = known(id)) client->knows_failure = true;
  throw UsageError(batch_failed_);
}

void Core::on_begin_from(CallId call, const transport::Message& request) {
  const calls::BatchFrom from = calls::decode_batch_from(request);
  if (!options_.batch) throw UsageError("the job is no batch optimization");
  if (require(from.client).entry.role != ClientRole::evaluator)
    throw UsageError("client " + std::to_string(from.client) +
                     " is no evaluator: it can't say where the optimization goes on from");
  const BatchStart start = decode_batch_start(from.start);
  if (!start.begun || start.commands != 0)
    throw UsageError("what the optimization is to go on from is no state of a checkpoint");
  if (!state_.initialized && batch_start_.empty()) {
    set_batch_start(from.start);
    put(kBatchStartKey, batch_start_, Survives::power);
    tell(Tell::Level::info,
         "the optimization goes on behind iteration " + std::to_string(start.state.iteration));
  }
  reply(call, calls::encode_nothing());
}

std::vector<optim::VectorName> Core::batch_held() const {
  std::vector<optim::VectorName> all;
  for (const auto& [client, names] : batch_held_) all.insert(all.end(), names.begin(), names.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Who has asked before its replica could begin asks now, or is told after a while why it can't.
void Core::hear_early_ones() {
  for (auto& [call, request, since] : std::exchange(batch_->early, {})) {
    const auto group = groups_.find(request.client);
    PortionAnswer answer;
    if (group == groups_.end() || group->second.leaving) {
      answer.kind = PortionAnswer::Kind::unknown_client;
    } else if (!state_.ended.empty()) {
      answer.kind = PortionAnswer::Kind::finished;
      answer.why = state_.ended;
    } else if (answer.why = why_incomplete(group->second); answer.why.empty()) {
      batch_->desk.enter(request.client, clients_.at(group->second.clients.at(0)).entry.name);
      try {
        batch_->desk.ask(now_, call, request);
      } catch (const UsageError& error) {
        effects_.emplace_back(AnswerCall{call, {}, error.what()});
      }
      continue;
    } else if (now_ < since + GroupDesk::kLongest) {
      batch_->early.push_back({call, std::move(request), since});
      continue;
    }
    reply(call, calls::encode(answer));
  }
}

// A power cut may not take how portions were cut: somebody may be at a group, and another one with
// some of its portions would be refused by shards.
void Core::put_batch_changes() {
  for (const std::uint32_t block : batch_->desk.ledger().take_changed()) {
    put(portions_key(block), batch_->desk.ledger().encode(block), Survives::power);
  }
}

// What there is to say to those who wait, once what it says is stored.
void Core::speak_of_batch() {
  if (!batch_) return;
  hear_early_ones();
  GroupDesk& desk = batch_->desk;
  if (!state_.ended.empty()) desk.finish(now_, state_.ended);
  for (auto& [call, answer] : desk.answers(now_)) reply(call, calls::encode(answer));
  put_batch_changes();
  const GroupLedger& ledger = desk.ledger();
  if (batch_->awaited && ledger.open() && (ledger.complete() || ledger.hopeless())) {
    effects_.emplace_back(EvaluationOver{*std::exchange(batch_->awaited, std::nullopt),
                                         !ledger.hopeless(), ledger.loss(), ledger.not_finite()});
  }
}

Effects Core::begin_evaluation(Time now, const EvaluationId& id) {
  at(now);
  BatchWork& work = batch_work();
  GroupLedger& ledger = work.desk.ledger();
  if (!work.begun || !ledger.open() || ledger.evaluation() != id) {
    work.desk.begin(now_, id);
    work.begun = true;
    put(kPortionsKey, ledger.encode(), Survives::power);
  }
  return done();
}

Effects Core::await_evaluation(Time now, std::uint64_t token) {
  at(now);
  batch_work().awaited = token;
  return done();
}

Effects Core::portions_missing(Time now, std::span<const PortionRange> ranges) {
  at(now);
  for (const auto& [begin, end] : ranges) batch_work().desk.missing(begin, end);
  return done();
}

Effects Core::keep_batch(Time now, std::uint64_t token, std::optional<Bytes> start, Bytes answers) {
  at(now);
  if (start) {
    set_batch_start(std::move(*start));
    put(kBatchStartKey, batch_start_, Survives::power);
    if (batch_) {
      const PortionCounts& now_all = batch_->desk.journal().all();
      batch_->iteration = counts_since(now_all, std::exchange(batch_->at_iteration, now_all));
    }
  }
  batch_answers_ = std::move(answers);
  put(kBatchAnswersKey, batch_answers_, Survives::power);
  when_stored([this, token] { effects_.emplace_back(BatchKept{token}); });
  return done();
}

void Core::count_method_bytes(std::uint64_t bytes) {
  if (batch_) batch_->method_bytes += bytes;
}

Effects Core::batch_over(Time now, const std::string& why) {
  at(now);
  batch_work().over = why;
  tell(Tell::Level::info, "the optimization is over: " + why);
  return done();
}

Effects Core::batch_failed(Time now, const std::string& why) {
  at(now);
  batch_failed_ = why;
  return done();
}

bool Core::evaluators_know_failure() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& each) {
    return each.second.entry.role != ClientRole::evaluator || each.second.knows_failure;
  });
}

Effects Core::end_job(Time now, const std::string& why) {
  at(now);
  end(why);
  return done();
}

std::optional<BatchFacts> Core::batch_facts() const {
  if (!batch_) return std::nullopt;
  BatchFacts facts;
  facts.begun = batch_->begun;
  facts.evaluation = batch_->desk.ledger().evaluation();
  facts.portions = batch_->groups.portions;
  facts.counts = batch_->desk.ledger().counts();
  facts.bytes = batch_->desk.bytes();
  facts.method_bytes = batch_->method_bytes;
  facts.iteration = batch_->iteration;
  facts.all = batch_->desk.journal().all();
  facts.over = batch_->over;
  facts.replicas = batch_->desk.journal().replicas(now_);
  facts.gone = batch_->desk.journal().gone();
  facts.start = batch_brief_;
  return facts;
}

}  // namespace convoy::server::coordinator
