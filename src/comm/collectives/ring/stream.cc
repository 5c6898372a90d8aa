#include "comm/collectives/ring/stream.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "comm/kernels/reduce.h"
#include "comm/topology/ring.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {
namespace {

// The messages that one rank receives, numbered: item i is segment i mod S of the slice of step i /
// S, S segments per slice. What is received as item i is sent on as item i + S.
class Items {
 public:
  Items(Buffer data, int rank, int size, RingPhases phases, const Pipeline& pipeline)
      : data_(data),
        size_(size),
        // A reduce-scatter that starts with slice r-1 ends with slice r on rank r; an allgather
        // starts with the own slice.
        first_slice_(phases == RingPhases::allgather ? rank : rank + size - 1) {
    const std::size_t largest = chunk(data.count, size, 0).count;
    segments_ = static_cast<std::size_t>(segments_of(largest, data.type, pipeline));
    largest_bytes_ = chunk(largest, static_cast<int>(segments_), 0).count * size_of(data.type);
  }

  std::size_t largest_bytes() const { return largest_bytes_; }

  std::size_t per_step() const { return segments_; }
  Buffer sent(std::size_t item) const { return segment(item, 0); }
  Buffer received(std::size_t item) const { return segment(item, 1); }

 private:
  Buffer segment(std::size_t item, int behind) const {
    const auto step = static_cast<int>(item / segments_);
    const int index = (first_slice_ - step - behind + 2 * size_) % size_;
    const Chunk c = chunk(data_.count, size_, index);
    const Chunk s = chunk(c.count, static_cast<int>(segments_), static_cast<int>(item % segments_));
    return slice(data_, c.begin + s.begin, s.count);
  }

  Buffer data_;
  int size_;
  int first_slice_;
  std::size_t segments_;
  std::size_t largest_bytes_;
};

}  // namespace

Task ring_stream(Io& io, Buffer data, ReduceOp op, RingPhases phases, Pipeline pipeline) {
  const int size = io.size();
  if (size == 1) co_return;
  const auto [next, previous] = ring_links(size, io.rank());
  const std::size_t window = pipeline.in_flight;  // receives posted ahead
  const Items items(data, io.rank(), size, phases, pipeline);
  const std::size_t phase = static_cast<std::size_t>(size - 1) * items.per_step();
  const std::size_t reducing = phases == RingPhases::allgather ? 0 : phase;
  const std::size_t total = phases == RingPhases::both ? 2 * phase : phase;
  const std::size_t last_addition =
      reducing - std::min(reducing, items.per_step());  // items from here on are final

  const std::size_t scratch_stride = items.largest_bytes();
  std::unique_ptr<std::byte[]> scratch;
  if (reducing > 0) scratch = std::make_unique_for_overwrite<std::byte[]>(window * scratch_stride);

  std::vector<Ticket> sends(total);
  std::vector<Ticket> receives(std::min(window, total));
  std::size_t posted = 0;
  for (std::size_t i = 0; i < items.per_step(); ++i)
    sends[i] = io.send(next, bytes_of(ConstBuffer(items.sent(i))));

  for (std::size_t i = 0; i < total; ++i) {
    for (; posted < std::min(total, i + receives.size()); ++posted) {
      const Buffer place = items.received(posted);
      if (posted < reducing) {
        receives[posted % receives.size()] =
            io.receive(previous, {scratch.get() + posted % window * scratch_stride, place.bytes()});
        continue;
      }
      // In the second phase data arrives in place: the partial sum that was sent from there must be
      // gone.
      if (reducing > 0 && sends[posted - reducing].pending()) {
        if (posted > i) break;  // not urgent: the receive that is needed now comes first
        co_await one(sends[posted - reducing]);
      }
      receives[posted % receives.size()] = io.receive(previous, bytes_of(place));
    }
    co_await one(receives[i % receives.size()]);
    if (i < reducing) {
      const Buffer place = items.received(i);
      reduce(op, place.type, place.data, scratch.get() + i % window * scratch_stride, place.count);
      if (op == ReduceOp::average && i >= last_addition)
        divide(place.type, place.data, place.count, size);
    }
    const std::size_t onward = i + items.per_step();
    if (onward < total) sends[onward] = io.send(next, bytes_of(ConstBuffer(items.sent(onward))));
  }
  co_await all(sends);
}

}  // namespace convoy::comm
