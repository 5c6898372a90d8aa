// What a host does with its state.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "server/host/shard_host.h"
#include "server/host/side_by_side.h"
#include "server/state/commands.h"

namespace convoy::server::host {
namespace {

using calls::Answered;
using calls::Outcome;
using replication::Role;

// What costs little more than to wake another thread is done by the one that is there.
constexpr std::uint64_t kSmallCommand = std::uint64_t{2} << 20;
constexpr std::uint64_t kSmallState = std::uint64_t{8} << 20;
constexpr std::uint64_t kReplayReadBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kLongestCutWait = 60'000;  // milliseconds
constexpr std::size_t kMostParts = 4;
constexpr auto kSameLine = std::chrono::seconds(10);

Answered answered(Outcome outcome, std::string reason, std::uint64_t primary = 0) {
  return {outcome, primary, std::move(reason), {}};
}

// Values behind those that are there: float32 as they stand, others in the encoding asked for.
void append(std::vector<ShardState::View> views, Encoding encoding, transport::Message& values) {
  if (encoding == Encoding::f32) {
    const auto kept = std::make_shared<const std::vector<ShardState::View>>(std::move(views));
    for (const ShardState::View& view : *kept) values.append({std::as_bytes(view.values), kept});
    return;
  }
  for (const ShardState::View& view : views) {
    Bytes bytes(encoded_size(encoding, view.values.size()));
    encode(encoding, view.values, bytes);
    values.append(transport::Message::of(std::move(bytes)));
  }
}

bool is_definition(const replication::Command& command) {
  return command->size() > 2 && (*command)[2] == static_cast<std::byte>(CommandNumber::define);
}

}  // namespace

void ShardHost::propose(replication::Command command, Answer answer) {
  const replication::Token token = ++last_token_;
  askers_.emplace(token, std::move(answer));
  next_.push_back([this, token, command = std::move(command)] {
    return node_->propose(now(), token, command);
  });
}

void ShardHost::on(replication::Reject& effect) {
  const auto asker = askers_.extract(effect.token);
  if (!asker) return;
  // An earlier life of this node is nobody to ask.
  const std::uint64_t primary =
      effect.primary.node == settings_.self.node ? 0 : effect.primary.node;
  Outcome outcome = Outcome::busy;
  if (effect.unknown) {
    outcome = Outcome::unknown;
  } else if (role_ != Role::primary) {
    outcome = Outcome::not_primary;
  }
  asker.mapped()(answered(outcome, effect.reason, primary));
}

void ShardHost::on(replication::RoleChanged& effect) {
  static constexpr const char* kRoles[] = {"idle", "joining", "backup", "primary"};
  role_ = effect.role;
  const replication::Configuration& configuration = effect.configuration;
  std::string line = kRoles[static_cast<int>(effect.role)];
  line += " in epoch " + std::to_string(configuration.epoch);
  if (effect.role == Role::primary) {
    line += configuration.backup
                ? ", with server " + std::to_string(configuration.backup.node) + " as backup"
                : ", alone";
  } else if (configuration.primary) {
    line += ", server " + std::to_string(configuration.primary.node) + " is primary";
  }
  line += ": " + effect.why;
  // What is asked again and again is said now and then.
  const auto time = time_now();
  if (line != last_line_ || time > last_line_at_ + kSameLine) {
    tell(line);
    last_line_ = line;
    last_line_at_ = time;
  }
  if (effect.role == Role::primary) {
    copy_groups_to_backup();
    // What it commits by becoming primary is applied first.
    if (!serves_) {
      next_.push_back([this, epoch = configuration.epoch] {
        apply_lane_.add([this, epoch] {
          event([&] {
            serves_ = role_ == Role::primary && node_->configuration().epoch >= epoch;
            return Effects{};
          });
        });
        return Effects{};
      });
    }
  } else {
    serves_ = false;
    has_groups_ = {};
    feed_.clear();
    if (!cuts_.empty()) carry_out(cuts_.end("this server is not the primary any more"));
  }
}

// --- commands ---

void ShardHost::apply(replication::Index through,
                      std::vector<std::pair<Answer, replication::Index>> asked) {
  auto job = std::make_shared<Job>();
  job->first = dispatched_ + 1;
  job->last = through;
  job->asked = std::move(asked);
  std::uint64_t bytes = 0;
  for (auto i = std::max(job->first, recent_.first()); i <= through; ++i) {
    job->entries.push_back(*recent_.find(i));
    bytes += job->entries.back().command->size();
  }
  dispatched_ = through;
  if (!folder_ && settings_.recent_bytes == 0) {
    next_.push_back([this] { return node_->snapshot_saved(now(), dispatched_); });
  }
  const bool small = job->entries.size() == through + 1 - job->first && bytes <= kSmallCommand &&
                     memory_bytes_ <= kSmallState;
  job->within_event = true;
  if (small && apply_lane_.run_if_idle([&] { run(*job); })) return;
  job->within_event = false;
  apply_lane_.add([this, job] { run(*job); });
}

void ShardHost::run(const Job& job) {
  auto asked = job.asked.begin();
  const auto one = [&](const replication::Entry& entry) {
    Bytes reply = state_.apply(entry.index, *entry.command);
    applied_epoch_ = entry.epoch;
    since_snapshot_ += entry.command->size();
    if (is_definition(entry.command)) note_size();
    if (is_batch_command(*entry.command)) {
      note_size();
      desk_.look();
    }
    for (; asked != job.asked.end() && asked->second == entry.index; ++asked) {
      asked->first({Outcome::done, 0, {}, transport::Message::of(std::move(reply))});
    }
  };
  const replication::Index behind = job.entries.empty() ? job.last + 1 : job.entries.front().index;
  for (replication::Index at = job.first; at < behind;) {
    for (const replication::Entry& entry : logged(at, behind - 1, kReplayReadBytes)) {
      one(entry);
      at = entry.index + 1;
    }
  }
  for (const replication::Entry& entry : job.entries) one(entry);
  if (!cuts_asked_) return;
  if (job.within_event) {
    next_.push_back([this] {
      look_at_cuts();
      return Effects{};
    });
  } else {
    event([this] {
      look_at_cuts();
      return Effects{};
    });
  }
}

std::vector<replication::Entry> ShardHost::logged(replication::Index first, replication::Index last,
                                                  std::uint64_t limit) const {
  std::vector<replication::Entry> entries;
  // While the log is being truncated it can't be read; what was committed is never truncated.
  for (int attempt = 0;; ++attempt) {
    try {
      for (LogRecord& record : folder_->log().read(first, limit)) {
        if (record.index > last) break;
        entries.push_back(
            {record.index, record.epoch, std::make_shared<const Bytes>(std::move(record.bytes))});
      }
      if (entries.empty()) throw Failure("the log ends before command " + std::to_string(first));
      return entries;
    } catch (const Failure&) {
      if (attempt == 50 || stopped_) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A large update is bound by memory, which one core alone doesn't exhaust.
void ShardHost::update_side_by_side() {
  const std::size_t parts = std::min(usable_cores().size(), kMostParts);
  for (std::size_t i = 1; i < parts; ++i) {
    helpers_.push_back(std::make_unique<Lane>([this](const std::string& why) { broken(why); }));
  }
  state_.use(parts, [this](std::size_t count, const ShardState::Part& part) {
    run_side_by_side(count, part, [this](std::size_t i, std::function<void()> task) {
      helpers_[i - 1]->add(std::move(task));
    });
  });
}

void ShardHost::note_size() {
  const auto definition = state_.definition();
  if (!definition) return;
  const BatchStatus batch = state_.batch();
  // In a space nobody gives the slices of pushes and fetches values.
  const bool slices = !batch.element || batch.slices;
  memory_bytes_ = (slices ? memory_of(*definition) : 0) + batch.bytes + batch.spare_bytes;
}

// --- fetches ---

Answered ShardHost::fetch(const calls::FetchRequest& request) const {
  if (auto answer = not_serving()) return *answer;
  try {
    if (!request.unless.empty() && request.unless.size() != request.ranges.size()) {
      throw UsageError("fetch: versions of " + std::to_string(request.unless.size()) + " of " +
                       std::to_string(request.ranges.size()) + " ranges");
    }
    calls::Fetched fetched;
    fetched.index = state_.applied();
    for (std::size_t i = 0; i < request.ranges.size(); ++i) {
      const FetchRange& range = request.ranges[i];
      std::vector<ShardState::View> views;
      const std::uint64_t version =
          request.cut != 0 ? state_.view_cut(request.cut, range, views) : state_.view(range, views);
      const bool sent = request.unless.empty() || request.unless[i] != version;
      fetched.versions.push_back(version);
      fetched.sent.push_back(sent);
      if (sent) append(std::move(views), request.encoding, fetched.values);
    }
    if (request.cut == 0) fetched_bytes_ += fetched.values.size();
    Answered answer;
    answer.content = calls::encode(fetched);
    return answer;
  } catch (const UsageError& error) {
    return answered(Outcome::refused, error.what());
  }
}

// --- cuts ---

void ShardHost::cut(calls::CutRequest request, Answer answer) {
  event([&] {
    if (role_ != Role::primary) {
      const std::uint64_t primary = node_->configuration().primary.node;
      answer(answered(Outcome::not_primary, "not the primary",
                      primary == settings_.self.node ? 0 : primary));
      return Effects{};
    }
    if (cuts_.size() >= kMaxCuts) {
      answer(answered(Outcome::busy, std::to_string(kMaxCuts) + " cuts wait already"));
      return Effects{};
    }
    const auto until =
        time_now() + std::chrono::milliseconds(std::min(request.milliseconds, kLongestCutWait));
    cuts_.add({std::move(request), std::move(answer), until});
    look_at_cuts();
    return Effects{};
  });
}

void ShardHost::look_at_cuts() {
  if (cuts_.empty()) return;
  std::map<std::uint64_t, std::uint64_t> sequences;
  for (const ClientStatus& each : state_.status().clients) {
    sequences[each.id] = each.client.sequence;
  }
  carry_out(cuts_.decide(time_now(), sequences));
}

void ShardHost::carry_out(CutHolds::Decided decided) {
  cuts_asked_ = !cuts_.empty();
  for (auto& [answer, why] : decided.refuse) answer(answered(Outcome::refused, why));
  for (CutHolds::Cut& cut : decided.make) make_cut(std::move(cut));
  for (CutHolds::Waiting& waiting : decided.go_on) {
    propose(std::move(waiting.command), std::move(waiting.answer));
  }
}

void ShardHost::make_cut(CutHolds::Cut cut) {
  const std::uint64_t id = cut.request.cut;
  propose(std::make_shared<const Bytes>(cut_command(id)),
          [this, id, answer = std::move(cut.answer)](Answered made) {
            if (made.outcome == Outcome::done) {
              try {
                const server::Reply reply = decode_reply(made.content.gather());
                if (reply.status != Status::done) throw UsageError(reply.message);
                made.content = calls::encode_pushes(state_.last_pushes(id));
              } catch (const UsageError& error) {
                made = answered(Outcome::refused, error.what());
              }
            }
            answer(std::move(made));
          });
}

}  // namespace convoy::server::host
