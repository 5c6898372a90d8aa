// A replica of a Sandblaster job.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convoy/train/sandblaster_roles.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/sandblaster/portions.h"

namespace convoy::train {

template <typename T>
class PortionRanks;

class BatchReplica final : public Around {
 public:
  BatchReplica(BatchServiceFactory connect, BatchReplicaOptions options);
  ~BatchReplica() override;

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  void prepare(TrainerContext& context, const State* saved) override;
  // Computes what it is given until the job ends, or it is told to stop.
  void run() override;

  const BatchReplicaResult& result() const { return result_; }

 private:
  template <typename T>
  void run_as();
  template <typename T>
  std::string work(PortionRanks<T>& together);
  void connect();
  bool told_to_stop() const { return options_.should_stop && options_.should_stop(); }

  BatchServiceFactory connect_;
  BatchReplicaOptions options_;
  std::shared_ptr<data::Portions> portions_ = std::make_shared<data::Portions>();
  TrainerContext* outer_ = nullptr;
  std::unique_ptr<PortionContext> context_;
  std::optional<PortionSource> source_;
  std::unique_ptr<BatchService> service_;
  BatchReplicaResult result_;
};

}  // namespace convoy::train
