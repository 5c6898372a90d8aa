// The strategy itself, whose steps are in step.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "convoy/parallel/distributed_model.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/strategy.h"
#include "train/strategies/hybrid/head.h"
#include "train/strategies/hybrid/optimizers.h"
#include "train/strategies/hybrid/options.h"
#include "train/strategies/hybrid/rounds.h"
#include "train/strategies/local_buffers.h"
#include "train/strategies/shares.h"
#include "train/strategies/tally.h"
#include "train/strategies/updates.h"

namespace convoy::train {

// What this rank has of a batch.
struct HybridShare {
  std::size_t samples = 0;      // that take part
  std::vector<double> weights;  // of its pieces, by round
  double weight = 0;
};

// What all ranks have of it.
struct HybridWhole {
  std::vector<std::size_t> group;  // samples of the ranks of this group
  std::vector<double> weights;     // of the rounds of all groups
  double weight = 0;
};

class Hybrid final : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return network_->whole_parameters(); }
  std::size_t least_share(TrainerContext& context) override;
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override;
  Communicated communicated() override;
  State state() override;
  void with_whole_model(const std::function<void()>& use) override;
  std::optional<Slice> wanted(const Slice& whole) override;
  TensorList forward(const TensorList& inputs) override;
  bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
             const UseOutputs& use) override;

 private:
  parallel::DistributedOptions trunk_options(const State* saved) const;
  // Gives the rounds of what the ranks of a group have of a batch.
  std::vector<Round> rounds_of(std::span<const std::size_t> shares) const {
    return plan_rounds(shares, options_.senders, options_.passes);
  }
  std::unique_ptr<parallel::GradientReducer> make_head_sums() const;
  double updates_of_head() const;
  StepReport step(const data::Batch& batch);
  HybridShare share_of(const data::Batch& batch);
  HybridWhole whole_of_all(const std::function<void()>& meanwhile, const HybridShare& share,
                           StepReport& report);
  torch::Tensor trunk_forward(const data::Batch& batch, const HybridShare& share,
                              StepReport& report);
  torch::Tensor train_head(const data::Batch& batch, const torch::Tensor& boundary,
                           const HybridShare& share, const HybridWhole& whole, double& loss,
                           StepReport& report);
  void trunk_backward(const torch::Tensor& boundary, const torch::Tensor& gradient,
                      StepReport& report);
  void finish_head(StepReport& report);
  void update_head_alone(double weight, StepReport& report);
  void update_all(StepReport& report);
  void start_sums_of_head();
  void give_gradients_of_head();
  void finish_sums_of_head(StepReport& report);
  torch::Tensor boundary_of(const Task& task, const TaskBatch& rows, std::size_t samples,
                            std::int64_t views, double weight);
  void follow(Timeline* timeline);

  HybridOptions options_;
  std::optional<parallel::Grid> grid_;
  std::shared_ptr<SplitNetwork> network_;
  std::optional<Compute> compute_;
  at::ScalarType wire_ = torch::kFloat;
  std::optional<Exchange> exchange_;
  std::optional<Head> head_;
  TrainerContext* context_ = nullptr;
  // This has the layers that every rank has; it is none if they have no parameters.
  std::optional<parallel::DistributedModel<model::StagedNetwork>> trunk_;
  std::optional<HybridOptimizers> optimizers_;
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  comm::Communicator replicas_;      // for gradients of partitioned layers
  // This is for norms of the parts of a group. Replicas have to scale gradients by the same number,
  // so that their sums have the same bits whatever their transports.
  comm::Communicator norms_;
  // This sums gradients of partitioned layers over replicas; null where there is one.
  std::unique_ptr<parallel::GradientReducer> head_sums_;
  std::vector<bool> given_;  // which of them, in a step whose sums are under way; or empty
  Tally tally_;
  bool synchronized_ = false;  // batch norm
  LocalBuffers buffers_;
  std::size_t least_share_ = 1;
  LeftOut left_out_;  // of shares with fewer
  Phases phases_;
  std::optional<ReducerRows> rows_, head_rows_;  // of sums, in a timeline
};

}  // namespace convoy::train
