// The samples of a replica: portions of epochs that a coordinator leases to it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/data/portions.h"
#include "convoy/data/sample_source.h"
#include "train/strategies/downpour/exchange.h"
#include "train/strategies/downpour/leases.h"

namespace convoy::train {

// The first rank of the replica asks for portions and tells the others. Batches of a portion are
// consecutive positions of its epoch's order; the last one has what is left of it. One thread;
// collective but for what only looks.
class LeasedSource final : public data::SampleSource {
 public:
  // `loader` makes the batches of what is put into `portions`, of `batch` samples. `ahead` of them
  // are prepared before they are needed, across portions where `across` says so.
  LeasedSource(const comm::Communicator& ranks, data::SampleSource& loader,
               std::shared_ptr<data::Portions> portions, std::size_t batch, std::size_t ahead,
               bool across);

  // Takes portions of this service from now on, and none that another one gave.
  void connect(ParameterService& service);
  // Ends asking.
  void disconnect();

  // late: yes, after waiting for it. none: a round in which this replica has no samples, after
  // which there may be more; progress() is of it. gone: this replica was taken for dead, or the job
  // is over.
  enum class More : std::uint8_t { yes, late, none, finished, stopped, gone };
  // Whether next() has another batch. Waits for a portion; `idle` is called first, once, and says
  // whether waiting makes sense; `should_stop` again and again, on all ranks.
  More more(const std::function<bool()>& idle, const std::function<bool()>& should_stop);

  // Say of the batch last returned where it begins and how many positions it had, how far the
  // portion is with it, and whether that is the portion's end.
  const data::EpochPart& part() const { return part_; }
  const PortionProgress& progress() const { return progress_; }
  bool portion_ends() const { return ends_; }
  // Is called with work that all servers have.
  void acknowledged(const PortionProgress& progress);
  void report(const server::ReplicaReport& report);

  std::size_t size() const override { return loader_.size(); }
  std::size_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  std::size_t batches_left() const override { return 0; }
  data::Shape shape() const override { return loader_.shape(); }
  void seek(const data::Position&) override {}
  const data::Batch* next() override;
  data::Position position() const override;
  bool epoch_over() const override { return false; }
  data::SourceStatistics statistics() const override { return loader_.statistics(); }

 private:
  struct Open {
    server::Portion portion;
    std::uint64_t at = 0;  // where its next batch begins
  };
  std::size_t batches_open() const;
  // Nothing where this replica is gone.
  std::optional<Leases::Answer::Kind> take(std::uint64_t milliseconds);
  bool any(bool here) const;

  comm::Communicator ranks_;
  data::SampleSource& loader_;
  std::shared_ptr<data::Portions> portions_;
  std::size_t batch_;
  std::size_t ahead_;
  bool across_;
  ParameterService* service_ = nullptr;
  std::optional<Leases> leases_;      // on the first rank
  std::deque<Open> open_;             // of which next() has not returned everything
  std::deque<server::Portion> used_;  // of which servers don't have everything, as far as is known
  data::EpochPart part_;
  PortionProgress progress_;
  bool ends_ = false;
};

}  // namespace convoy::train
