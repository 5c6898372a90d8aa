#include "train/strategies/hybrid/exchange.h"

#include <algorithm>
#include <numeric>

#include "parallel/tensors.h"

namespace convoy::train {
namespace {

// Below those of buckets.
constexpr int kFirstRow = 1000;

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

Exchange::Exchange(const comm::Communicator& group) : group_(group.duplicate()) {}

void Exchange::set_timeline(Timeline* timeline) {
  if (timeline != timeline_) free_.fill({});
  timeline_ = timeline;
}

Exchange::Transfer Exchange::start(Kind kind, std::size_t key, const torch::Tensor& send,
                                   const std::vector<std::size_t>& to,
                                   const std::vector<std::size_t>& to_offsets,
                                   const std::vector<std::size_t>& from) {
  Transfer transfer;
  transfer.kind_ = kind;
  transfer.key_ = key;
  transfer.begin_ = Clock::now();
  transfer.sent_ = send.detach().to(torch::kCPU).contiguous();
  transfer.received_ =
      torch::empty({static_cast<std::int64_t>(sum_of(from))}, transfer.sent_.options());
  const std::size_t element = transfer.sent_.element_size();
  const auto me = static_cast<std::size_t>(rank());
  Payload& payload = payload_[static_cast<std::size_t>(kind)];
  payload.sent += (sum_of(to) - to[me]) * element;
  payload.received += (sum_of(from) - from[me]) * element;
  transfer.bytes_ = (sum_of(to) - to[me]) * element;
  transfer.operation_ =
      group_.start_alltoallv(parallel::buffer_of(transfer.sent_), {to, to_offsets},
                             parallel::buffer_of(transfer.received_), from,
                             {static_cast<std::uint16_t>(kind), static_cast<std::uint16_t>(key)});
  return transfer;
}

Exchange::Transfer Exchange::start_to_all(Kind kind, std::size_t key, const torch::Tensor& mine,
                                          const std::vector<std::size_t>& counts) {
  const auto ranks = static_cast<std::size_t>(size());
  return start(kind, key, mine,
               std::vector<std::size_t>(ranks, static_cast<std::size_t>(mine.numel())),
               std::vector<std::size_t>(ranks, 0), counts);
}

Exchange::Transfer Exchange::start_to_each(Kind kind, std::size_t key, const torch::Tensor& parts,
                                           const std::vector<std::size_t>& to,
                                           const std::vector<std::size_t>& from) {
  std::vector<std::size_t> offsets(to.size());
  std::exclusive_scan(to.begin(), to.end(), offsets.begin(), std::size_t{0});
  return start(kind, key, parts, to, offsets, from);
}

torch::Tensor Exchange::finish(Transfer& transfer) {
  const auto start = Clock::now();
  transfer.operation_.wait();
  const auto end = Clock::now();
  waited_ += std::chrono::duration<double>(end - start).count();
  if (timeline_ != nullptr) {
    const auto kind = static_cast<std::size_t>(transfer.kind_);
    const int row = kFirstRow + static_cast<int>(kind);
    timeline_->name_row(row, std::string("exchange: ") + kNames[kind]);
    // One after the other on their row, although several may be under way.
    timeline_->add(row, std::string(kNames[kind]) + " " + std::to_string(transfer.key_),
                   std::max(transfer.begin_, free_[kind]), end,
                   {{"bytes", static_cast<std::int64_t>(transfer.bytes_)}});
    free_[kind] = end;
  }
  transfer.sent_ = torch::Tensor();
  return std::move(transfer.received_);
}

torch::Tensor sum_of_parts(const torch::Tensor& parts, int count, at::IntArrayRef shape,
                           at::ScalarType type) {
  const std::int64_t each = parts.numel() / count;
  torch::Tensor sum = parts.narrow(0, 0, each).to(type, /*non_blocking=*/false, /*copy=*/true);
  for (int i = 1; i < count; ++i) sum.add_(parts.narrow(0, i * each, each));
  return sum.view(shape);
}

}  // namespace convoy::train
