#include "comm/shared_memory/node_collective.h"

#include <algorithm>
#include <limits>

#include "convoy/base/error.h"

namespace convoy::comm {

NodeCollective::NodeCollective(Node& node, const Call& call, std::uint64_t id)
    : node_(node),
      call_(call),
      id_(id),
      slots_(node.size(), nullptr),
      seen_(node.size(), 0),
      missing_(node.size() - 1) {}

bool NodeCollective::claim() {
  if (own_ != nullptr) return true;
  own_ = node_.board().claim();
  if (own_ == nullptr) return false;
  own_->call = call_;
  slots_[node_.index()] = own_;
  return true;
}

std::span<std::byte> NodeCollective::own_payload() const { return payload(node_.index()); }

std::span<std::byte> NodeCollective::payload(std::size_t member) const {
  return node_.board().payload(member, *slots_[member]);
}

void NodeCollective::publish() { node_.board().publish(*own_, id_); }

bool NodeCollective::complete() {
  if (missing_ == 0) return true;
  const std::size_t hint = node_.board().number(*own_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] != nullptr) continue;
    slots_[i] = node_.board().find(i, id_, hint, seen_[i]);
    if (slots_[i] == nullptr) continue;
    --missing_;
    if (!call_.agrees_with(slots_[i]->call)) {
      throw Failure("ranks disagree about a call: rank " +
                    std::to_string(node_.rank_of(node_.index())) + " called " + call_.text() +
                    "; rank " + std::to_string(node_.rank_of(i)) + " called " +
                    slots_[i]->call.text());
    }
  }
  return missing_ == 0;
}

void NodeCollective::leave() {
  for (Slot* slot : slots_) {
    if (slot != own_) slot->taken.fetch_add(1, std::memory_order_release);
  }
}

std::uint64_t NodeCollective::least(std::atomic<std::uint64_t> Slot::*counter) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Slot* slot : slots_) {
    if (slot != own_) least = std::min(least, (slot->*counter).load(std::memory_order_acquire));
  }
  return least;
}

void NodeCollective::behind(std::atomic<std::uint64_t> Slot::*counter, std::uint64_t wanted,
                            std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (i == node_.index()) continue;
    if (slots_[i] == nullptr || (slots_[i]->*counter).load(std::memory_order_acquire) < wanted)
      ranks.push_back(node_.rank_of(i));
  }
}

}  // namespace convoy::comm
