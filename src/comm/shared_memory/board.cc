#include "comm/shared_memory/board.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace convoy::comm {

struct alignas(64) Board::Header {
  std::atomic<std::uint64_t> published;  // slots, ever
  std::atomic<std::uint32_t> slots;      // that have memory behind them
};

namespace {

constexpr std::size_t kBoardPage = 4096;
constexpr std::size_t up_to_page(std::size_t bytes) {
  return (bytes + kBoardPage - 1) / kBoardPage * kBoardPage;
}

// A rank's part: the header and the ring, a short staging block, the ring's payloads, the staging
// blocks, slots beyond the ring, and their payloads.
constexpr std::size_t kHeader = 64;
constexpr std::size_t kShortStage = 16 << 10;
constexpr std::uint32_t kPatience = 32;        // looks at one place before all are searched
constexpr std::size_t kLeastStage = 64 << 10;  // of the others, where memory is short
// Whoever waits claims again and again: pages that are taken and given back cost microseconds each.
constexpr auto kRefusal = std::chrono::milliseconds(100);
constexpr std::size_t kShortStageBegin = up_to_page(kHeader + Board::kRing * sizeof(Slot));
constexpr std::size_t kPayloadBegin = kShortStageBegin + kShortStage;
constexpr std::size_t kStageBegin = kPayloadBegin + Board::kRing * Board::kPayload;
constexpr std::size_t kBeyond = Board::kMostSlots - Board::kRing;
constexpr std::size_t kBeyondBegin = kStageBegin + Board::kStages * Board::kStage;
constexpr std::size_t kBeyondPayloadBegin = up_to_page(kBeyondBegin + kBeyond * sizeof(Slot));

constexpr std::size_t slot_begin(std::size_t number) {
  return number < Board::kRing ? kHeader + number * sizeof(Slot)
                               : kBeyondBegin + (number - Board::kRing) * sizeof(Slot);
}
constexpr std::size_t payload_begin(std::size_t number) {
  return number < Board::kRing ? kPayloadBegin + number * Board::kPayload
                               : kBeyondPayloadBegin + (number - Board::kRing) * Board::kPayload;
}

}  // namespace

std::size_t Board::bytes_per_rank() { return payload_begin(kMostSlots); }
std::size_t Board::committed_per_rank() { return kPayloadBegin + kPayload; }

Board::Board(SharedParts parts, std::size_t index)
    : parts_(std::move(parts)),
      index_(index),
      claimed_(new std::atomic<bool>[kMostSlots]()),
      pages_(kRing),
      indices_(parts_.parts.size()) {
  static_assert(sizeof(Header) == kHeader);
  // The memory is zeroed: free slots, nothing published.
  pages_[0] = kPayload / kBoardPage;
  stages_.push_back(part(index_).subspan(kShortStageBegin, kShortStage));
  for (std::size_t i = 0; i < kStages; ++i)
    new_stages_.push_back(part(index_).subspan(kStageBegin + i * kStage, kStage));
}

Board::Header& Board::header(std::size_t rank) const {
  return *reinterpret_cast<Header*>(part(rank).data());
}

Slot& Board::slot(std::size_t rank, std::size_t number) const {
  return *reinterpret_cast<Slot*>(part(rank).data() + slot_begin(number));
}

std::span<std::byte> Board::payload(std::size_t rank, const Slot& slot) const {
  return part(rank).subspan(payload_begin(slot.number), kPayload);
}

std::uint64_t Board::next_id(Match match) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t tag = static_cast<std::uint32_t>(match.channel) << 16 | match.key;
  return static_cast<std::uint64_t>(tag) << 40 | ++calls_[tag];
}

bool Board::commit(std::span<std::byte> part) {
  if (Clock::now() >= ask_again_) refused_ = std::numeric_limits<std::size_t>::max();
  const std::size_t bytes = up_to_page(part.size());
  if (bytes >= refused_) return false;
  if (parts_.mapping->try_commit(part)) return true;
  refused_ = bytes;
  ask_again_ = Clock::now() + kRefusal;
  return false;
}

bool Board::commit_payload(std::size_t number, std::size_t bytes) {
  const std::size_t pages = (bytes + kBoardPage - 1) / kBoardPage;
  if (pages_[number] >= pages) return true;
  if (!commit(part(index_).subspan(payload_begin(number), pages * kBoardPage))) return false;
  pages_[number] = static_cast<std::uint8_t>(pages);
  return true;
}

bool Board::free(std::size_t number) const {
  const Slot& own = slot(index_, number);
  if (claimed_[number].load(std::memory_order_acquire)) return false;
  return own.id.load(std::memory_order_relaxed) == 0 ||
         own.taken.load(std::memory_order_acquire) == size() - 1;
}

bool Board::add_slot() {
  const std::size_t number = pages_.size();
  if (number >= most_slots_) return false;
  if (!commit(part(index_).subspan(slot_begin(number), sizeof(Slot)))) return false;
  pages_.push_back(0);
  header(index_).slots.store(static_cast<std::uint32_t>(number + 1), std::memory_order_release);
  return true;
}

Slot* Board::take(std::size_t number) {
  Slot& own = slot(index_, number);
  claimed_[number].store(true, std::memory_order_relaxed);
  own.id.store(0, std::memory_order_relaxed);
  own.ready.store(0, std::memory_order_relaxed);
  own.finished.store(0, std::memory_order_relaxed);
  own.withdrawn.store(0, std::memory_order_relaxed);
  own.busy.store(0, std::memory_order_relaxed);
  own.taken.store(0, std::memory_order_relaxed);
  own.location = {};
  own.number = static_cast<std::uint32_t>(number);
  return &own;
}

Board::Turn::Turn(Board& board) : board_(board) {
  const std::lock_guard lock(board_.mutex_);
  place_ = ++board_.last_place_;
  board_.turns_.push_back(place_);
}

Board::Turn::~Turn() {
  const std::lock_guard lock(board_.mutex_);
  std::erase(board_.turns_, place_);
}

Board::Claimed Board::claim(const Need& need, Place& place, const Turn* turn) {
  assert(need.payload <= kPayload);
  const std::lock_guard lock(mutex_);
  if (next_ == 0 && !turns_.empty()) next_ = 1;
  Claimed claimed;
  if (queue_.empty() || queue_.front() == place) claimed = claim_all(need);
  if (claimed.slot == nullptr && turn != nullptr && turns_.front() == turn->place_)
    claimed = claim_first(need);
  if (claimed.slot != nullptr) {
    next_ = (next_ + 1) % kRing;
    if (place != 0) std::erase(queue_, place);
    place = 0;
  } else if (place == 0) {
    place = ++last_place_;
    queue_.push_back(place);
  }
  return claimed;
}

void Board::leave_queue(Place place) {
  const std::lock_guard lock(mutex_);
  std::erase(queue_, place);
}

Board::Claimed Board::claim_all(const Need& need) {
  Claimed claimed;
  if (need.staging) claimed.staging = take_staging();
  const bool in_payload = need.staging && claimed.staging.empty();
  claimed.slot = claim_slot(in_payload ? kPayload : need.payload);
  if (claimed.slot == nullptr) {
    if (!claimed.staging.empty()) return_staging(claimed.staging);
    return {};
  }
  if (in_payload) claimed.staging = payload(index_, *claimed.slot);
  return claimed;
}

Board::Claimed Board::claim_first(const Need& need) {
  if (!free(0)) return {};
  Claimed claimed;
  claimed.slot = take(0);
  if (need.staging) claimed.staging = payload(index_, *claimed.slot);
  return claimed;
}

Slot* Board::claim_slot(std::size_t payload) {
  const auto usable = [&](std::size_t number) {
    const bool kept = number == 0 && !turns_.empty();
    return !kept && free(number) && commit_payload(number, payload);
  };
  if (usable(next_)) return take(next_);
  const std::size_t beyond = pages_.size() - kRing;
  for (std::size_t i = 0; i < beyond; ++i) {
    beyond_ = (beyond_ + 1) % beyond;
    if (usable(kRing + beyond_)) return take(kRing + beyond_);
  }
  if (add_slot() && usable(pages_.size() - 1)) return take(pages_.size() - 1);
  // Out of turn rather than not at all.
  for (std::size_t number = 0; number < kRing; ++number) {
    if (usable(number)) return take(number);
  }
  return nullptr;
}

void Board::publish(Slot& slot, std::uint64_t id) {
  assert(slot.id.load(std::memory_order_relaxed) == 0);
  slot.id.store(id, std::memory_order_release);
  header(index_).published.fetch_add(1, std::memory_order_release);
}

void Board::release(Slot& slot) {
  assert(slot.id.load(std::memory_order_relaxed) != 0);
  claimed_[slot.number].store(false, std::memory_order_release);
}

Slot* Board::find(std::size_t rank, std::uint64_t id, std::size_t hint, Search& search) {
  const auto there = [&](std::size_t number) -> Slot* {
    Slot& theirs = slot(rank, number);
    return theirs.id.load(std::memory_order_acquire) == id ? &theirs : nullptr;
  };
  if (hint < kRing || hint < header(rank).slots.load(std::memory_order_acquire)) {
    if (Slot* const found = there(hint)) return found;
  }
  // Who makes the same calls will be there soon.
  if (search.looks < kPatience) {
    ++search.looks;
    return nullptr;
  }
  std::uint64_t published = header(rank).published.load(std::memory_order_acquire);
  if (published == search.seen) return nullptr;
  const std::lock_guard lock(mutex_);
  Index& index = indices_[rank];
  published = header(rank).published.load(std::memory_order_acquire);
  if (index.seen != published) {
    const std::size_t slots =
        std::max<std::size_t>(kRing, header(rank).slots.load(std::memory_order_acquire));
    index.ids.resize(slots);
    for (std::size_t number = 0; number < slots; ++number) {
      const std::uint64_t now = slot(rank, number).id.load(std::memory_order_acquire);
      std::uint64_t& before = index.ids[number];
      if (now == before) continue;
      index.numbers.erase(before);
      if (now != 0) index.numbers[now] = static_cast<std::uint32_t>(number);
      before = now;
    }
    index.seen = published;
  }
  search.seen = published;
  const auto at = index.numbers.find(id);
  return at == index.numbers.end() ? nullptr : there(at->second);
}

std::span<std::byte> Board::take_staging() {
  const bool none = stages_.empty() || stages_.back().size() == kShortStage;
  if (none && !new_stages_.empty() && commit(new_stages_.back().first(kLeastStage))) {
    std::size_t bytes = kStage;
    while (bytes > kLeastStage && !commit(new_stages_.back().first(bytes))) bytes /= 2;
    stages_.push_back(new_stages_.back().first(bytes));
    new_stages_.pop_back();
  }
  if (stages_.empty()) return {};
  const auto stage = stages_.back();
  stages_.pop_back();
  return stage;
}

void Board::return_staging(std::span<std::byte> staging) {
  // The short one is the last to be taken.
  stages_.insert(staging.size() == kShortStage ? stages_.begin() : stages_.end(), staging);
}

void Board::give_staging(std::span<std::byte> staging) {
  const auto begin = static_cast<std::size_t>(staging.data() - part(index_).data());
  const bool block = begin < kPayloadBegin || (begin >= kStageBegin && begin < kBeyondBegin);
  if (!block) return;
  const std::lock_guard lock(mutex_);
  return_staging(staging);
}

}  // namespace convoy::comm
