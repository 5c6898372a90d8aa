#include "convoy/parallel/sampler.h"

#include <torch/serialize/archive.h>

#include <string>

#include "convoy/base/error.h"
#include "convoy/data/epoch_order.h"

namespace convoy::parallel {

struct DistributedSampler::State {
  std::size_t size;
  int rank;
  int world;
  DistributedSamplerOptions options;
  std::uint64_t epoch = 0;
  std::size_t start = 0;  // where in the epoch the last reset(), seek() or load() set out
  data::EpochCursor cursor;
  // The epoch's order, made when first needed: a seek() or reset() alone costs nothing.
  std::optional<data::EpochOrder> order;
  bool begun = false;  // false: the next reset() begins `epoch` instead of the one after it

  State(std::size_t size, int rank, int world, DistributedSamplerOptions options)
      : size(size),
        rank(rank),
        world(world),
        options(options),
        cursor(size, 0, rank, world, options.drop_last) {}

  data::EpochCursor cursor_at(std::size_t consumed) const {
    return {size, consumed, rank, world, options.drop_last};
  }

  void set_out(std::uint64_t new_epoch, std::size_t consumed) {
    cursor = cursor_at(consumed);
    if (new_epoch != epoch) order.reset();
    epoch = new_epoch;
    start = consumed;
  }
};

DistributedSampler::DistributedSampler(std::size_t size, int rank, int world,
                                       DistributedSamplerOptions options)
    : state_(std::make_shared<State>(size, rank, world, options)) {}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  State& s = *state_;
  const std::uint64_t epoch = s.begun ? s.epoch + 1 : s.epoch;
  std::size_t consumed = s.begun ? 0 : s.start;
  if (new_size && *new_size != s.size) {
    s.size = *new_size;
    s.order.reset();
    consumed = 0;
  }
  s.set_out(epoch, consumed);
  s.begun = true;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t local_batch) {
  State& s = *state_;
  s.begun = true;
  const data::Range share = s.cursor.next(data::global_batch(local_batch, s.world));
  if (share.empty()) return std::nullopt;
  if (!s.order) s.order.emplace(s.size, s.options.seed, s.epoch, s.options.shuffle);
  return s.order->samples(share);
}

void DistributedSampler::seek(std::uint64_t epoch, std::size_t consumed) {
  State& s = *state_;
  if (consumed == s.size && s.size > 0) {
    s.set_out(epoch + 1, 0);
  } else {
    s.set_out(epoch, consumed);
  }
  s.begun = false;
}

std::size_t DistributedSampler::size() const { return state_->size; }

std::uint64_t DistributedSampler::epoch() const { return state_->epoch; }

std::size_t DistributedSampler::position() const { return state_->cursor.consumed(); }

std::size_t DistributedSampler::position_after(std::size_t steps, std::size_t local_batch) const {
  return state_->cursor_at(state_->start)
      .consumed_after(steps, data::global_batch(local_batch, state_->world));
}

std::size_t DistributedSampler::steps(std::size_t local_batch) const {
  return state_->cursor_at(state_->start)
      .steps_left(data::global_batch(local_batch, state_->world));
}

namespace {

constexpr const char* kKeys[] = {"convoy_sampler_size", "convoy_sampler_seed",
                                 "convoy_sampler_shuffle", "convoy_sampler_epoch",
                                 "convoy_sampler_position"};

std::int64_t read(torch::serialize::InputArchive& archive, const char* key) {
  torch::Tensor value;
  if (!archive.try_read(key, value)) {
    throw UsageError(std::string("the archive holds no DistributedSampler: '") + key +
                     "' is missing");
  }
  if (value.scalar_type() != torch::kInt64 || value.numel() != 1) {
    throw UsageError(std::string("'") + key + "' in the archive is not one 64-bit integer");
  }
  return value.item<std::int64_t>();
}

void expect_same(const char* what, std::uint64_t saved, std::uint64_t mine) {
  if (saved == mine) return;
  throw UsageError(std::string("the saved sampler has ") + what + " " + std::to_string(saved) +
                   ", this one " + std::to_string(mine) +
                   ": construct it as the saved one was, or start a new epoch with seek()");
}

}  // namespace

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const State& s = *state_;
  const std::uint64_t values[] = {s.size, s.options.seed, s.options.shuffle, s.epoch,
                                  s.cursor.consumed()};
  for (std::size_t i = 0; i < std::size(kKeys); ++i) {
    // Archives hold tensors and have no unsigned 64-bit ones that old versions read: same bits.
    archive.write(kKeys[i], torch::tensor(static_cast<std::int64_t>(values[i]), torch::kInt64),
                  /*is_buffer=*/true);
  }
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  std::uint64_t values[std::size(kKeys)];
  for (std::size_t i = 0; i < std::size(kKeys); ++i) {
    values[i] = static_cast<std::uint64_t>(read(archive, kKeys[i]));
  }
  expect_same("data set size", values[0], state_->size);
  expect_same("seed", values[1], state_->options.seed);
  expect_same("shuffle", values[2], state_->options.shuffle);
  seek(values[3], values[4]);
}

}  // namespace convoy::parallel
