#include "convoy/data/store.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "data/store/admit.h"
#include "data/store/load.h"
#include "data/store/need.h"
#include "data/store/redistribution.h"
#include "data/store/region.h"
#include "data/store/shared_copy.h"

namespace convoy::data {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// What each rank of `peers` has for this one.
std::vector<std::size_t> swap_counts(Peers& peers, const std::vector<std::size_t>& mine) {
  std::vector<std::size_t> theirs(mine.size());
  const std::vector<std::size_t> each(mine.size(), sizeof(std::size_t));
  peers.exchange(bytes_of(mine), each, std::as_writable_bytes(std::span(theirs)), each);
  return theirs;
}

std::vector<std::size_t> times(std::vector<std::size_t> counts, std::size_t size) {
  for (std::size_t& count : counts) count *= size;
  return counts;
}

std::vector<std::uint32_t> numbers_of(Range records) {
  std::vector<std::uint32_t> numbers(records.size());
  std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(records.begin));
  return numbers;
}

}  // namespace

Store::Store(std::shared_ptr<const LoadableDataset> source, Peers& world, StoreOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
  if (source_ == nullptr || source_->size() == 0) throw UsageError("the data set holds no records");
  if (source_->size() >= kNone)
    throw UsageError("a store holds at most " + std::to_string(kNone - 1) + " records");
  Admission admission = admit(*source_, world, options_, true);
  if (admission.need.placement == Placement::host) {
    std::string problem;
    copy_ = SharedCopy::make(world, admission.here, source_->bytes({0, source_->size()}), problem);
    if (!copy_) {
      if (options_.placement != Placement::best) {
        throw UsageError("the ranks of a host can't share memory for all records (" + problem +
                         "); parts in the ranks' own memory don't need that");
      }
      admission = admit(*source_, world, options_, false);
    }
  }
  need_ = admission.need;
  if (options_.planned) options_.planned(need_);
  group_ = world.split(world.rank() / need_.members);
  together(world, [&] {
    slot_of_.assign(source_->size(), kNone);
    if (copy_)
      load_copy(admission.here);
    else if (need_.placement == Placement::parts)
      load_part();
    else
      take_over({});
  });
  if (!options_.check || need_.placement != Placement::parts) return;
  sum_ = 0;
  for (const std::uint64_t sum : group_->gather_numbers(checksum())) sum_ += sum;
}

Store::~Store() = default;

int Store::members() const { return group_->size(); }
int Store::member() const { return group_->rank(); }

void Store::load_part() {
  const Range part = consecutive_part(*source_, group_->rank(), group_->size());
  take_over(numbers_of(part));
  region_ = std::make_unique<Region>(offsets_.back());
  load_records(*source_, part, offsets_, {region_->data(), offsets_.back()}, options_.threads,
               options_.tell);
}

// The ranks of a host load a part each.
void Store::load_copy(const HostRanks& here) {
  take_over(numbers_of({0, source_->size()}));
  const Range part =
      consecutive_part(*source_, static_cast<int>(here.index), static_cast<int>(here.all.size()));
  const auto begin = offsets_.begin() + static_cast<std::ptrdiff_t>(part.begin);
  std::vector<std::uint64_t> offsets(begin, begin + static_cast<std::ptrdiff_t>(part.size()) + 1);
  const std::uint64_t first = offsets[0];
  for (std::uint64_t& offset : offsets) offset -= first;
  load_records(*source_, part, offsets, copy_->bytes().subspan(first, offsets.back()),
               options_.threads, options_.tell);
}

// The tables for these records, one after the other.
void Store::take_over(std::vector<std::uint32_t> held) {
  for (const std::uint32_t i : held_) slot_of_[i] = kNone;
  held_ = std::move(held);
  offsets_.resize(held_.size() + 1);
  offsets_[0] = 0;
  for (std::size_t slot = 0; slot < held_.size(); ++slot) {
    slot_of_[held_[slot]] = static_cast<std::uint32_t>(slot);
    offsets_[slot + 1] = offsets_[slot] + source_->length(held_[slot]);
  }
}

Record Store::read(std::size_t i, std::vector<std::byte>& scratch) const {
  const std::uint32_t slot = slot_of_[i];
  if (slot == kNone) return source_->read(i, scratch);
  const std::byte* memory = copy_ ? copy_->bytes().data() : region_->data();
  return source_->record(i, {memory + offsets_[slot], bytes_at(slot)});
}

ShuffleReport Store::arrange(std::span<const std::size_t> order) {
  if (order.size() != size()) {
    throw UsageError("an order of " + std::to_string(order.size()) + " for " +
                     std::to_string(size()) + " records");
  }
  const auto ranks = static_cast<std::size_t>(members());
  if (ranks == 1) return {};
  const auto start = Clock::now();
  // Whose each of the records here will be, and then the records of each rank, in order of memory.
  std::vector<std::uint32_t> whose(held_.size());
  Outgoing outgoing;
  outgoing.begins.assign(ranks + 1, 0);
  for (std::size_t p = 0; p < order.size(); ++p) {
    const std::uint32_t slot = slot_of_[order[p]];
    if (slot == kNone) continue;
    whose[slot] = static_cast<std::uint32_t>(p % ranks);
    ++outgoing.begins[p % ranks + 1];
  }
  std::partial_sum(outgoing.begins.begin(), outgoing.begins.end(), outgoing.begins.begin());
  outgoing.slots.resize(held_.size());
  std::vector<std::size_t> next(outgoing.begins.begin(), outgoing.begins.end() - 1);
  for (std::size_t slot = 0; slot < held_.size(); ++slot)
    outgoing.slots[next[whose[slot]]++] = static_cast<std::uint32_t>(slot);

  // Nothing to do if that's so everywhere.
  const auto me = static_cast<std::size_t>(member());
  const bool stay = outgoing.begins[me + 1] - outgoing.begins[me] == held_.size();
  const std::vector<std::uint64_t> stays = group_->gather_numbers(stay ? 1 : 0);
  if (std::accumulate(stays.begin(), stays.end(), std::uint64_t{0}) == ranks) return {};

  // The numbers first.
  std::vector<std::uint32_t> numbers(held_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = held_[outgoing.slots[i]];
  std::vector<std::size_t> counts(ranks), bytes(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    counts[rank] = outgoing.begins[rank + 1] - outgoing.begins[rank];
    for (std::size_t i = outgoing.begins[rank]; i < outgoing.begins[rank + 1]; ++i)
      bytes[rank] += bytes_at(outgoing.slots[i]);
  }
  const std::vector<std::size_t> new_counts = swap_counts(*group_, counts);
  std::vector<std::size_t> incoming = swap_counts(*group_, bytes);
  std::vector<std::uint32_t> held(
      std::accumulate(new_counts.begin(), new_counts.end(), std::size_t{0}));
  group_->exchange(bytes_of(numbers), times(counts, sizeof(std::uint32_t)),
                   std::as_writable_bytes(std::span(held)),
                   times(new_counts, sizeof(std::uint32_t)));

  RecordRedistribution move(*group_, *region_, offsets_, std::move(outgoing), std::move(incoming),
                            segment_for(options_.segment, members()));
  *region_ = move.run();
  take_over(std::move(held));
  ShuffleReport report = move.report();
  report.seconds = seconds_since(start);
  if (options_.check) check_whole();
  return report;
}

// Of the records here, whatever their order.
std::uint64_t Store::checksum() const {
  std::uint64_t sum = 0;
  for (std::size_t slot = 0; slot < held_.size(); ++slot) {
    const std::span<const std::byte> bytes(region_->data() + offsets_[slot], bytes_at(slot));
    sum += RandomStream(held_[slot], xxh3(bytes))();
  }
  return sum;
}

// Each record is held once, with the bytes that it was loaded with.
void Store::check_whole() const {
  std::uint64_t records = 0, sum = 0;
  for (const std::uint64_t held : group_->gather_numbers(held_.size())) records += held;
  for (const std::uint64_t part : group_->gather_numbers(checksum())) sum += part;
  if (records == size() && sum == sum_) return;
  throw Failure("after a shuffle the ranks of a group hold " + std::to_string(records) + " of " +
                std::to_string(size()) +
                " records, or others than were loaded: memory or the network has changed them");
}

}  // namespace convoy::data
