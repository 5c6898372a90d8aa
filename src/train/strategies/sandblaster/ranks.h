// The ranks of a replica of a batch optimization: the first one asks for portions, and the others
// do what it does, each with its part of the network.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/server/batch_worker.h"
#include "convoy/train/batch_service.h"
#include "train/strategies/sandblaster/portions.h"

namespace convoy::train {

// Work and service of a server::PortionWorker, on the first rank: each call is made by all ranks,
// the others being in follow(). Of one rank alone it tells nobody anything.
template <typename T>
class PortionRanks final : public server::PortionWork<T> {
 public:
  // Refers to all of them. `service` is the rank's own.
  PortionRanks(const comm::Communicator& ranks, BatchService& service, PortionPass<T>& pass,
               PortionSource& source);

  // On other ranks: until the first one says finish().
  void follow();
  // On the first one. Without effect where the others have thrown with it.
  void finish();
  // Whether a call has thrown on all ranks, since one of them is lost, or the job over.
  bool gone() const { return gone_; }

  // --- server::PortionWork ---
  std::span<const server::BatchView<T>> weights() override { return pass_.weights().views(); }
  void begin(const server::EvaluationId& id) override;
  double compute(std::uint32_t portion, std::span<T> gradient) override;
  void ahead(const server::PortionGroup& group) override;
  void begin_group(const server::PortionGroup& group) override;

  // --- what it asks for ---
  server::PortionLease lease(const server::EvaluationId& evaluation,
                             std::span<const server::PortionGroup> held,
                             std::span<const server::FinishedPortions> finished, bool at_once) {
    return service_.lease(evaluation, held, finished, at_once);
  }
  void fetch(const optim::VectorName& name, std::span<const server::BatchView<T>> to);
  server::GroupAnswer add_group(const server::EvaluationId& id, const server::PortionGroup& group,
                                std::span<const server::BatchView<const T>> values);

 private:
  enum Kind : std::int64_t { kFinish, kFetch, kBegin, kAhead, kBeginGroup, kCompute, kAdd };
  using Order = std::array<std::int64_t, 5>;

  void tell(const Order& order);
  // Throws on all ranks where it has failed on one: what was thrown here, or Failure. Where it was
  // refused on one (UsageError), the first rank alone throws, and the others return false.
  template <typename Work>
  bool on_all(const Work& work);
  server::GroupAnswer worst(server::GroupAnswer own) const;
  void obey(const Order& order);
  void own_compute(std::uint32_t portion);
  void own_add(const server::EvaluationId& id, const server::PortionGroup& group);

  comm::Communicator ranks_;
  bool others_follow_ = true;
  bool gone_ = false;
  BatchService& service_;
  PortionPass<T>& pass_;
  PortionSource& source_;
  // Of ranks behind the first, whose sums a PortionWorker has.
  BatchBlock<T> pushed_;
  std::vector<T> gradient_;
  server::PortionSum<T> sum_;
};

}  // namespace convoy::train
