// What a host does with a batch optimizer's vectors, and with gradients of portions: these are in
// the memory of primary and backup, in no log.
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/host/shard_host.h"
#include "server/state/commands.h"

namespace convoy::server::host {
namespace {

using calls::Answered;
using calls::Outcome;
using replication::Role;

// A backup that can't take a group yet is not sent all of it again and again.
constexpr auto kCopyAgain = std::chrono::milliseconds(100);

}  // namespace

bool is_batch_command(std::span<const std::byte> command) {
  return command.size() > 2 && command[2] >= static_cast<std::byte>(CommandNumber::space);
}

std::optional<Answered> ShardHost::not_serving() const {
  if (role_ != Role::primary) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t primary = node_->configuration().primary.node;
    return Answered{
        Outcome::not_primary, primary == settings_.self.node ? 0 : primary, "not the primary", {}};
  }
  if (serves_) return std::nullopt;
  return Answered{
      Outcome::busy, 0, "this server has become the primary and applies what it has", {}};
}

Answered ShardHost::dots(const calls::DotsRequest& request) const {
  if (auto answer = not_serving()) return *answer;
  return desk_.dots(request);
}

Answered ShardHost::vector(const calls::VectorRequest& request) const {
  if (auto answer = not_serving()) return *answer;
  Answered answer = desk_.vector(request);
  fetched_bytes_ += answer.content.size();
  return answer;
}

Answered ShardHost::vectors() const {
  if (auto answer = not_serving()) return *answer;
  return desk_.vectors();
}

Answered ShardHost::missing(const calls::EvaluationRequest& request) {
  if (auto answer = not_serving()) return *answer;
  return desk_.missing(request);
}

void ShardHost::seal(const calls::SealRequest& request, Answer answer) {
  if (auto no = not_serving()) return answer(*no);
  if (sealing_.exchange(true)) {
    return answer({Outcome::busy, 0, "a gradient is on its way to log and backup", {}});
  }
  std::shared_ptr<void> seal(&sealing_, [this](void*) { sealing_ = false; });
  auto made = desk_.seal(request);
  if (auto* said = std::get_if<Answered>(&made)) {
    seal.reset();
    return answer(std::move(*said));
  }
  auto command = std::make_shared<const Bytes>(std::move(std::get<Bytes>(made)));
  event([&] {
    propose(std::move(command), [answer = std::move(answer), seal](Answered done) mutable {
      seal.reset();
      answer(BatchDesk::sealed(std::move(done)));
    });
    seal.reset();
    return Effects{};
  });
}

// --- groups ---

void ShardHost::group(const calls::GroupRequest& request, const transport::Message& message,
                      Answer answer) {
  if (auto no = not_serving()) return answer(*no);
  auto added = desk_.add(request);
  if (auto* said = std::get_if<Answered>(&added)) return answer(std::move(*said));
  pushed_bytes_ += message.size();
  event([&] {
    copies_.emplace(++last_copy_,
                    GroupCopy{{std::get<BatchDesk::Kept>(added), message}, std::move(answer)});
    send_copies();
    return Effects{};
  });
}

// With mutex_. What the backup has, or nobody is there to have, is answered.
void ShardHost::send_copies() {
  const replication::Configuration& configuration = node_->configuration();
  for (auto at = copies_.begin(); at != copies_.end();) {
    GroupCopy& copy = at->second;
    const bool nobody = !configuration.backup || !links_.group_to_node;
    if (role_ != Role::primary || nobody || copy.arrived == configuration.backup) {
      Answered said{Outcome::unknown, 0, "this server is not the primary any more", {}};
      if (role_ == Role::primary) said = {Outcome::done, 0, {}, calls::encode(GroupAnswer::kept)};
      if (copy.answer) copy.answer(std::move(said));
      at = copies_.erase(at);
      continue;
    }
    if (!copy.under_way && time_now() >= copy.again) {
      copy.under_way = true;
      const calls::CopyRequest head{
          configuration.epoch, copy.what.of.evaluation, copy.what.of.element, {}};
      links_.group_to_node(configuration.backup.node, calls::copy_request(head, copy.what.request),
                           [this, number = at->first, to = configuration.backup](bool arrived) {
                             copy_ended(number, to, arrived);
                           });
    }
    ++at;
  }
}

// What didn't arrive is sent again by a tick.
void ShardHost::copy_ended(std::uint64_t number, const replication::Member& to, bool arrived) {
  event([&] {
    const auto found = copies_.find(number);
    if (found == copies_.end()) return Effects{};
    found->second.under_way = false;
    if (!arrived) {
      found->second.again = time_now() + kCopyAgain;
      return Effects{};
    }
    found->second.arrived = to;
    send_copies();
    return Effects{};
  });
}

// With mutex_. All that a new backup lacks: to copy it takes longer than anybody may wait for this
// node.
void ShardHost::copy_groups_to_backup() {
  const replication::Member backup = node_->configuration().backup;
  if (backup == has_groups_) return;
  has_groups_ = backup;
  for (auto& [number, copy] : copies_) copy.again = {};
  if (!backup || !links_.group_to_node) return;
  feed_lane_.add([this, backup] {
    std::vector<BatchDesk::Copy> copies = desk_.copies(settings_.shard);
    event([&] {
      if (has_groups_ != backup) return Effects{};
      for (BatchDesk::Copy& copy : copies) {
        copies_.emplace(++last_copy_, GroupCopy{std::move(copy), nullptr});
      }
      send_copies();
      return Effects{};
    });
  });
}

bool ShardHost::keep_copy(const calls::CopyRequest& copy) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || role_ != Role::backup || node_->configuration().epoch != copy.epoch) {
      return false;
    }
  }
  return desk_.keep(copy);
}

}  // namespace convoy::server::host
