// One rank reads, others of its group get what it has read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/data/sample_source.h"

namespace convoy::train {

// The batches of the group's rank 0, on all ranks of the group: decoded once. next() is collective
// over the group; everything else is of this rank alone. An error in next() of rank 0 is thrown
// there, and leaves the others waiting for a rank that fails its world.
class HandedSource final : public data::SampleSource {
 public:
  // `own` reads on rank 0 of the group; elsewhere it goes through the same batches without samples
  // (data::LoaderOptions::nothing).
  HandedSource(std::unique_ptr<data::SampleSource> own, const comm::Communicator& group);

  std::size_t size() const override { return own_->size(); }
  std::size_t batches_per_epoch() const override { return own_->batches_per_epoch(); }
  std::size_t batches_left() const override { return own_->batches_left(); }
  data::Shape shape() const override { return own_->shape(); }
  void seek(const data::Position& position) override { own_->seek(position); }
  const data::Batch* next() override;
  data::Position position() const override { return own_->position(); }
  bool epoch_over() const override { return own_->epoch_over(); }
  data::SourceStatistics statistics() const override { return own_->statistics(); }

 private:
  const data::Batch* hand_on(const data::Batch* batch);
  const data::Batch* receive();
  // Lists as their lengths and what is in them, one after the other.
  template <class T>
  void send_lists(std::span<const std::vector<T>> lists);
  template <class T>
  void receive_lists(std::vector<std::vector<T>>& lists);

  std::unique_ptr<data::SampleSource> own_;
  comm::Communicator group_;
  // What was received, where this rank doesn't read.
  data::Batch batch_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> labels_;
  std::vector<std::vector<std::int64_t>> label_lists_;
  std::vector<std::uint64_t> lengths_;  // of lists
  std::vector<std::size_t> samples_;
  std::vector<std::vector<std::byte>> records_;
};

}  // namespace convoy::train
