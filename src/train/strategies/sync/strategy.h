// The strategy itself, whose steps are in step.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/model/factory.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/strategy.h"
#include "train/strategies/devices/table.h"
#include "train/strategies/local_buffers.h"
#include "train/strategies/shares.h"
#include "train/strategies/sync/noise_meter.h"
#include "train/strategies/tally.h"
#include "train/strategies/updates.h"

namespace convoy::train {

class Sync final : public Strategy {
 public:
  // `inside`: it is a part of another strategy, which changes the weights itself.
  explicit Sync(bool inside = false) : inside_(inside) {}

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::string not_finite_beside(const std::set<std::string>& meant) override;
  std::int64_t parameters() override { return model::parameter_count(*network_); }
  TensorList forward(const TensorList& inputs) override {
    return table_ ? table_->forward(inputs) : network_->run(inputs);
  }
  std::size_t least_share(TrainerContext& context) override;
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override;
  Communicated communicated() override { return {{}, reducer().statistics(), 0}; }
  State state() override;
  void with_whole_model(const std::function<void()>& use) override;

 private:
  parallel::DistributedOptions options(const State* saved) const;
  Sharers sharers() const;
  void check_devices() const;
  parallel::GradientReducer& reducer() { return table_ ? table_->reducer() : model_->reducer(); }
  const parallel::NormalizationSeconds& normalization_seconds() const {
    return table_ ? table_->normalization_seconds() : model_->normalization_seconds();
  }
  StepReport step(const data::Batch& batch);
  FoundFault look_for_fault(const data::Batch& batch);
  bool compute(const data::Batch& batch, StepReport& report);
  bool compute_on_devices(const data::Batch& batch, StepReport& report);
  std::vector<SharePart> parts_of(const data::Batch& batch, data::Range share) const;
  void forward_and_backward(const data::Batch& batch, const std::vector<SharePart>& parts,
                            StepReport& report);
  void start_tally(double loss, double weight, std::size_t samples);
  void tell_of_noise(const StepReport& report);

  const bool inside_;
  TrainerContext* context_ = nullptr;
  std::int64_t devices_ = 1;  // of each rank
  int ranks_of_host_ = 1;
  comm::Communicator all_ranks_;  // the world's
  std::shared_ptr<model::Network> network_;
  std::vector<std::shared_ptr<model::Network>> more_replicas_;  // of the devices after the first
  std::vector<double> auxiliary_;                               // its Blueprint::auxiliary
  // The one for a single device, the other for several.
  std::optional<parallel::DistributedModel<model::Network>> model_;
  std::unique_ptr<DeviceTable> table_;
  std::optional<NamedOptimizer> optimizer_;
  std::vector<parallel::NamedTensor> parameters_;
  std::vector<at::Tensor> tensors_;  // the same
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  bool synchronized_ = false;        // batch norm
  LocalBuffers buffers_;
  std::size_t least_share_ = 1;
  LeftOut left_out_;  // of shares with fewer
  Tally tally_;
  NoiseMeter noise_;
  bool noise_told_ = false;
  Phases phases_;
  std::optional<ReducerRows> rows_;  // in their timeline
};

}  // namespace convoy::train
