#include "comm/shared_memory/node_collective.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/engine/operation_state.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::comm {

NodeCollective::NodeCollective(Node& node, const Call& call, std::uint64_t id,
                               const Board::Turn* turn)
    : node_(node),
      call_(call),
      id_(id),
      turn_(turn),
      members_(node.size()),
      missing_(node.size() - 1) {}

NodeCollective::~NodeCollective() {
  if (state_ == State::published || state_ == State::complete) {
    // Others may be in the middle of a block of it, and write here: they are waited for. They find
    // this afterwards, and what they have read counts for nothing. The slot stays theirs. What this
    // thread writes later is not seen before this is.
    own_->withdrawn.store(1, std::memory_order_relaxed);
    own_->ready.store(kWithdrawn, std::memory_order_relaxed);
    own_->finished.store(kWithdrawn, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    wait_for_others();
  }
  if (place_ != 0) node_.board().leave_queue(place_);
  if (!staging_.empty()) node_.board().give_staging(staging_);
}

// A peer says that it is busy, then looks whether this rank has withdrawn, with a fence between, as
// this rank does the other way round: one of the two sees the other. Who is stopped in a block
// isn't waited for for ever: the job has failed.
void NodeCollective::wait_for_others() noexcept {
  constexpr int kLooks = 64;  // the first ones only at the likely place
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (i == node_.index()) continue;
    Member& member = members_[i];
    try {
      for (int look = 0; look < kLooks && member.slot == nullptr; ++look)
        member.slot = node_.board().find(i, id_, own_->number, member.search);
    } catch (const std::exception&) {  // without memory for a search
    }
    if (member.slot == nullptr) continue;  // not there yet
    while (member.slot->busy.load(std::memory_order_acquire) != 0 &&
           member.slot->id.load(std::memory_order_acquire) == id_ && Clock::now() < deadline)
      std::this_thread::yield();
  }
}

NodeCollective::AmongOthers::AmongOthers(NodeCollective& collective) : slot_(collective.own()) {
  slot_.busy.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  try {
    collective.check_members();
  } catch (...) {
    slot_.busy.store(0, std::memory_order_release);
    throw;
  }
}

bool NodeCollective::claim(const Board::Need& need) {
  if (state_ != State::created) return true;
  const Board::Claimed claimed = node_.board().claim(need, place_, turn_);
  if (claimed.slot == nullptr) return false;
  own_ = claimed.slot;
  staging_ = claimed.staging;
  own_->call = call_;
  members_[node_.index()].slot = own_;
  state_ = State::claimed;
  return true;
}

Slot& NodeCollective::own() {
  assert(state_ >= State::claimed && state_ < State::left);
  return *own_;
}

std::span<std::byte> NodeCollective::own_payload() {
  return node_.board().payload(node_.index(), own());
}

std::span<std::byte> NodeCollective::take_staging() {
  assert(state_ == State::claimed);
  return std::exchange(staging_, {});
}

void NodeCollective::publish() {
  assert(state_ == State::claimed);
  node_.board().publish(*own_, id_);
  state_ = State::published;
}

bool NodeCollective::complete() {
  assert(state_ == State::published || state_ == State::complete);
  if (state_ == State::complete) return true;
  const std::size_t hint = own_->number;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.slot != nullptr) continue;
    member.slot = node_.board().find(i, id_, hint, member.search);
    if (member.slot == nullptr) continue;
    --missing_;
    if (!call_.agrees_with(member.slot->call)) {
      throw Failure("ranks disagree about a call: rank " +
                    std::to_string(node_.rank_of(node_.index())) + " called " + call_.text() +
                    "; rank " + std::to_string(node_.rank_of(i)) + " called " +
                    member.slot->call.text());
    }
  }
  if (missing_ > 0) return false;
  check_members();
  state_ = State::complete;
  return true;
}

const Slot& NodeCollective::slot(std::size_t member) const {
  assert(state_ == State::complete);
  return *members_[member].slot;
}

std::span<std::byte> NodeCollective::payload(std::size_t member) const {
  return node_.board().payload(member, slot(member));
}

void NodeCollective::leave() {
  assert(state_ == State::complete);
  check_members();
  for (const Member& member : members_) {
    if (member.slot != own_) member.slot->taken.fetch_add(1, std::memory_order_release);
  }
  node_.board().release(*own_);
  state_ = State::left;
}

void NodeCollective::check_members() const {
  // All that was read of the others was read before this.
  std::atomic_thread_fence(std::memory_order_acquire);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].slot->withdrawn.load(std::memory_order_relaxed) != 0) throw_withdrawn(i);
  }
}

void NodeCollective::throw_withdrawn(std::size_t member) const {
  throw Withdrawn("rank " + std::to_string(node_.rank_of(member)) + " gave up " + call_.text());
}

std::uint64_t NodeCollective::least(std::atomic<std::uint64_t> Slot::*counter) const {
  assert(state_ == State::complete);
  std::uint64_t least = kWithdrawn;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].slot == own_) continue;
    const std::uint64_t value = (members_[i].slot->*counter).load(std::memory_order_acquire);
    if (value == kWithdrawn) throw_withdrawn(i);
    least = std::min(least, value);
  }
  return least;
}

void NodeCollective::absent(std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (i != node_.index() && members_[i].slot == nullptr) ranks.push_back(node_.rank_of(i));
  }
}

void NodeCollective::behind(std::atomic<std::uint64_t> Slot::*counter, std::uint64_t wanted,
                            std::vector<int>& ranks) const {
  absent(ranks);
  if (state_ == State::left) return;  // the others' slots may be in use anew
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (i == node_.index() || members_[i].slot == nullptr) continue;
    if ((members_[i].slot->*counter).load(std::memory_order_acquire) < wanted)
      ranks.push_back(node_.rank_of(i));
  }
}

}  // namespace convoy::comm
