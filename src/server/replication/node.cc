#include "server/replication/node.h"

#include <algorithm>
#include <utility>

namespace convoy::server::replication {

Node::Node(const NodeStart& start, const NodeOptions& options, const Rules& rules)
    : shard_(start.shard),
      self_(start.self),
      options_(options),
      rules_(rules),
      began_(start.log.position()),
      whole_(start.whole),
      log_(start.log),
      written_(start.log.last()),
      synced_(start.synced),
      committed_(start.applied),
      applied_(start.applied),
      saved_(start.applied) {
  configuration_.shard = shard_;
  // Whatever was written in an earlier life is still to be synced.
  if (synced_ < written_) unsynced_.push_back({ticket_, written_});
}

Effects Node::done() { return std::exchange(effects_, {}); }

void Node::at(Time now) {
  now_ += now > clock_ ? now - clock_ : 0;
  clock_ = now;
}

void Node::send(const Member& to, Body body) { add(Send{{shard_, self_, to, std::move(body)}}); }

Effects Node::tick(Time now) {
  at(now);
  if (now_ >= next_report_) report();
  sync_if_due();
  if (role_ == Role::primary) {
    tick_primary();
  } else {
    tick_follower();
  }
  return done();
}

Effects Node::receive(Time now, const Message& message) {
  at(now);
  if (message.shard == shard_ && message.to == self_) {
    std::visit([&](const auto& body) { on(message.from, body); }, message.body);
  }
  return done();
}

void Node::report() {
  send({},
       Report{stamp_, configuration_.epoch, role_, able_, whole_, began_, applied_, log_.last()});
  next_report_ = now_ + options_.report_interval;
}

void Node::on(const Member&, const Newest& newest) {
  const bool first = newest.stamp.authority != stamp_.authority;
  if (first || newest.stamp.time > stamp_.time) stamp_ = newest.stamp;
  adopt(newest.configuration, "the authority says so");
  if (first) report();  // only now does a new authority know that this node lives
}

// A configuration counts from the moment that any of its members hears of it, from whomever: it has
// been made already.
void Node::adopt(const Configuration& configuration, const char* why) {
  if (configuration.shard != shard_ || configuration.epoch <= configuration_.epoch) return;
  configuration_ = configuration;
  if (wanted_ && wanted_->epoch <= configuration_.epoch) wanted_.reset();
  if (configuration_.has(self_)) add(Admitted{configuration_.epoch});
  if (configuration_.primary == self_) {
    drop_incoming();
    lead(why);
    return;
  }
  if (role_ == Role::primary) step_down(why);
  if (following_ && following_->primary != configuration_.primary) drop_incoming();
  become(configuration_.backup == self_ ? Role::backup : Role::idle, why);
}

void Node::become(Role role, const std::string& why) {
  role_ = role;
  add(RoleChanged{role, configuration_, why});
}

// --- the log ---

void Node::write(std::vector<Entry> entries) {
  for (const Entry& entry : entries) log_.append({entry.epoch, entry.command->size()});
  ++ticket_;
  unwritten_.push_back({ticket_, log_.last()});
  unsynced_.push_back({ticket_, log_.last()});
  add(WriteLog{ticket_, std::move(entries)});
  if (options_.durability == Durability::synced) sync_if_due();
}

void Node::truncate(Index after) {
  after = std::min(after, log_.last());
  log_.truncate_after(after);
  written_ = std::min(written_, after);
  synced_ = std::min(synced_, after);
  // What is reported of earlier steps mustn't count for what will be written in their place.
  for (std::deque<Step>* steps : {&unwritten_, &unsynced_}) {
    for (Step& step : *steps) step.last = std::min(step.last, after);
  }
  ++ticket_;
  unwritten_.push_back({ticket_, after});
  unsynced_.push_back({ticket_, after});
  add(TruncateLog{ticket_, after});
  if (options_.durability == Durability::synced) sync_if_due();
}

void Node::sync_if_due() {
  if (unsynced_.empty() || syncing_ != 0) return;  // what is there is synced without room as well
  if (options_.durability == Durability::replicated && now_ < last_sync_ + options_.sync_interval) {
    return;
  }
  syncing_ = ticket_;
  last_sync_ = now_;
  add(SyncLog{syncing_});
}

void Node::step_reached(std::deque<Step>& steps, std::uint64_t ticket, Index& reached) {
  while (!steps.empty() && steps.front().ticket <= ticket) {
    reached = steps.front().last;
    steps.pop_front();
  }
}

Effects Node::log_written(Time now, std::uint64_t ticket) {
  at(now);
  step_reached(unwritten_, ticket, written_);
  log_advanced();
  return done();
}

Effects Node::log_synced(Time now, std::uint64_t ticket) {
  at(now);
  step_reached(unwritten_, ticket, written_);
  step_reached(unsynced_, ticket, synced_);
  if (ticket >= syncing_) syncing_ = 0;
  // What came meanwhile shares the next one.
  if (options_.durability == Durability::synced) sync_if_due();
  log_advanced();
  return done();
}

Effects Node::log_failed(Time now, Index last) {
  at(now);
  if (!rules_.leaves_when_unable()) {
    written_ = log_.last();
    log_advanced();
    return done();
  }
  able_ = false;
  syncing_ = 0;
  // A truncation that wasn't carried out has to be by the one below.
  for (const Step& step : unwritten_) last = std::min(last, step.last);
  unwritten_.clear();
  unsynced_.clear();
  truncate(std::max(last, log_.base().index));
  if (role_ == Role::primary) {
    // Commands that the backup has may be committed by it as the next primary.
    stalled_ = true;
    reject_waiting("no room for the log");
    count_pending();
    end_session();
  } else if (following_) {
    send(following_->primary,
         Refusal{Refusal::Kind::unable, configuration_.epoch, following_->session});
    drop_incoming();
    following_.reset();
  }
  report();
  return done();
}

Effects Node::log_usable(Time now) {
  at(now);
  if (!able_) {
    able_ = true;
    report();
    if (role_ == Role::primary) want({});
  }
  return done();
}

void Node::log_advanced() {
  if (role_ == Role::primary) {
    advance();
  } else if (following_ && following_->phase == Following::Phase::tail) {
    acknowledge(false);
  }
  apply();
}

Index Node::own_acknowledged() const {
  return rules_.acknowledged(options_.durability, written_, synced_);
}

// Not before it is written: a log that ends before what is applied couldn't go on.
void Node::apply() {
  const Index through = std::min(committed_, written_);
  if (through <= applied_) return;
  applied_ = through;
  add(Apply{applied_});
  while (!waiting_.empty() && waiting_.front().index <= applied_) {
    add(Reply{waiting_.front().token, waiting_.front().index});
    waiting_.pop_front();
  }
}

Effects Node::snapshot_saved(Time now, Index index) {
  at(now);
  saved_ = std::max(saved_, std::min(index, applied_));
  cut();
  return done();
}

void Node::cut() {
  Index needed = saved_;
  if (peer_) {
    using Feed = Peer::Feed;
    if (peer_->feed == Feed::opening) return;  // nobody knows yet where that snapshot ends
    if (peer_->feed == Feed::snapshot) needed = std::min(needed, peer_->at.index);
    if (peer_->feed == Feed::tail) needed = std::min({needed, peer_->written, peer_->next - 1});
  }
  if (needed < log_.first()) return;
  log_.cut_before(needed + 1);
  add(CutLog{needed + 1});
}

}  // namespace convoy::server::replication
