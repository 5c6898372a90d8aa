#include "comm/shared_memory/board.h"

namespace convoy::comm {

struct alignas(64) Board::Header {
  std::atomic<std::uint64_t> published;  // slots, ever
};

namespace {

constexpr std::uint64_t kClaimed = ~std::uint64_t{0};  // an id: taken, but not shown yet
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPayloadBegin = 64 + Board::kSlots * sizeof(Slot);
constexpr std::size_t kStageBegin =
    (kPayloadBegin + Board::kSlots * Board::kPayload + kPage - 1) / kPage * kPage;

}  // namespace

std::size_t Board::bytes_per_rank() { return kStageBegin + kStages * kStage; }

Board::Board(SharedParts parts, std::size_t index) : parts_(std::move(parts)), index_(index) {
  static_assert(sizeof(Header) == 64 && kPayloadBegin % 64 == 0);
  // The memory is zeroed: free slots, nothing published.
  for (std::size_t i = 0; i < kStages; ++i)
    stages_.push_back(part(index_).subspan(kStageBegin + i * kStage, kStage));
}

Board::Header& Board::header(std::size_t rank) const {
  return *reinterpret_cast<Header*>(part(rank).data());
}

std::span<Slot> Board::slots(std::size_t rank) const {
  return {reinterpret_cast<Slot*>(part(rank).data() + sizeof(Header)), kSlots};
}

std::span<std::byte> Board::payload(std::size_t rank, const Slot& slot) const {
  const auto number = static_cast<std::size_t>(&slot - slots(rank).data());
  return part(rank).subspan(kPayloadBegin + number * kPayload, kPayload);
}

std::size_t Board::number(const Slot& slot) const {
  return static_cast<std::size_t>(&slot - slots(index_).data());
}

std::uint64_t Board::next_id(Match match) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t tag = static_cast<std::uint32_t>(match.channel) << 16 | match.key;
  return static_cast<std::uint64_t>(tag) << 40 | ++calls_[tag];
}

Slot* Board::claim() {
  const std::lock_guard lock(mutex_);
  const std::span<Slot> own = slots(index_);
  for (std::size_t i = 0; i < kSlots; ++i) {
    Slot& slot = own[(next_ + i) % kSlots];
    const std::uint64_t id = slot.id.load(std::memory_order_relaxed);
    if (id == kClaimed || (id != 0 && slot.taken.load(std::memory_order_acquire) != size() - 1))
      continue;
    next_ = (next_ + i + 1) % kSlots;
    slot.id.store(kClaimed, std::memory_order_relaxed);
    slot.ready.store(0, std::memory_order_relaxed);
    slot.finished.store(0, std::memory_order_relaxed);
    slot.taken.store(0, std::memory_order_relaxed);
    slot.location = {};
    return &slot;
  }
  return nullptr;
}

void Board::publish(Slot& slot, std::uint64_t id) {
  slot.id.store(id, std::memory_order_release);
  header(index_).published.fetch_add(1, std::memory_order_release);
}

Slot* Board::find(std::size_t rank, std::uint64_t id, std::size_t hint, std::uint64_t& seen) const {
  const std::span<Slot> theirs = slots(rank);
  if (theirs[hint].id.load(std::memory_order_acquire) == id) return &theirs[hint];
  const std::uint64_t published = header(rank).published.load(std::memory_order_acquire);
  if (published == seen) return nullptr;
  for (Slot& slot : theirs) {
    if (slot.id.load(std::memory_order_acquire) == id) return &slot;
  }
  seen = published;
  return nullptr;
}

std::span<std::byte> Board::take_stage() {
  const std::lock_guard lock(mutex_);
  if (stages_.empty()) return {};
  const auto stage = stages_.back();
  stages_.pop_back();
  return stage;
}

void Board::give_stage(std::span<std::byte> stage) {
  const std::lock_guard lock(mutex_);
  stages_.push_back(stage);
}

}  // namespace convoy::comm
