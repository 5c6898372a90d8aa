// The strategy itself, whose steps are in step.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "convoy/model/balance.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/strategy.h"
#include "train/strategies/local_buffers.h"
#include "train/strategies/partitioned/needs.h"
#include "train/strategies/partitioned/network.h"
#include "train/strategies/shares.h"
#include "train/strategies/tally.h"
#include "train/strategies/updates.h"

namespace convoy::train {

class Partitioned final : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  Options settle(const NetworkSource& source, const Recipe* before) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return *network_; }
  std::int64_t parameters() override { return whole_parameters_; }
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
  // What the ranks of this one's replica have of a batch, and what all ranks' samples count.
  struct Shares {
    Rows rows;
    std::vector<double> weights;  // of these ranks
    double own_weight = 0, weight = 0;
    bool one_by_one = false;  // samples of one rank count differently
    bool too_few = false;     // for this replica to train on
  };
  model::Blueprint blueprint_of(const NetworkSource& source);
  ReplicaShare replica_share(const NetworkSource& source) const;
  std::vector<model::Shape> input_shapes() const;
  // Throws UsageError where ranks can't have what the network takes in all.
  void check_memory(const NetworkSource& source, const model::Blueprint& blueprint,
                    const model::PartitionPlan& plan) const;
  model::LayerParts timed_parts(const NetworkSource& source, const model::Blueprint& blueprint,
                                const model::PartitionPlan& plan) const;
  // Whether batch norm takes statistics over several replicas, which then all take part.
  bool replicas_together() const { return synchronized_ && grid_->shape().replicas > 1; }
  Sharers sharers() const;
  void find_types(const torch::Tensor& like, bool mixed);
  void sort_parameters();
  std::unique_ptr<parallel::GradientReducer> make_reducer(
      const comm::Communicator& ranks, const std::vector<parallel::NamedTensor>& parameters) const;
  std::string part_suffix(const Slice& part) const;
  Tensors own_buffers(const State& saved) const;
  std::unique_ptr<PartitionedPass> new_pass(const Rows& rows);
  void check_inputs(const TensorList& inputs) const;
  TensorList inputs_of(const Task& task, const std::optional<TaskBatch>& rows) const;
  Shares shares_of(const std::optional<TaskBatch>& rows, StepReport& report);
  void check_all_count(const std::vector<std::int64_t>& rows) const;
  std::vector<double> row_weights(const std::optional<TaskBatch>& rows, const Shares& shares);
  std::vector<std::size_t> sample_numbers(const std::optional<TaskBatch>& own);
  StepReport step(const data::Batch& batch);
  double forward_and_backward(const std::optional<TaskBatch>& rows, const Shares& shares,
                              bool divided_loss, StepReport& report);
  // Loss of this rank's samples, or of its outputs for those of all: what is to be differentiated,
  // and its value times its weight.
  struct Loss {
    torch::Tensor root;
    double weighted = 0;
  };
  Loss loss_of_samples(PartitionedPass& pass, const std::optional<TaskBatch>& rows,
                       const Shares& shares);
  Loss loss_of_part(PartitionedPass& pass, const std::optional<TaskBatch>& rows,
                    const Shares& shares);
  OutputPart output_part();
  void join_with_zeros();
  void update(StepReport& report);
  void follow(Timeline* timeline);

  const comm::World* world_ = nullptr;
  bool overlap_ = true;
  bool synchronized_ = false;  // batch norm over all replicas
  std::optional<parallel::Grid> grid_;
  std::shared_ptr<PartitionedNetwork> network_;
  std::int64_t whole_parameters_ = 0;
  ReplicaShare share_;
  std::string needs_text_;
  std::int64_t least_rows_ = 1;  // of a replica, that can be trained on
  std::optional<Compute> compute_;
  std::vector<at::ScalarType> types_;  // of the network's values
  std::vector<torch::Tensor> blanks_;  // the network's inputs, without rows
  torch::Tensor blank_targets_;        // for a loss of divided outputs; undefined: there is none
  std::optional<Links> links_;
  TrainerContext* context_ = nullptr;
  std::set<std::string> absent_;  // tensors of layers of which this rank has nothing
  std::vector<parallel::NamedTensor> parameters_;
  std::vector<parallel::NamedTensor> shared_, divided_;  // of them
  // These sum the gradients of parameters that all partitions have over all ranks, and those of
  // divided ones over the replicas of a partition.
  std::unique_ptr<parallel::GradientReducer> shared_sums_, divided_sums_;
  std::optional<NamedOptimizer> optimizer_;
  comm::Communicator communicator_;  // for tallies and buffers, apart from gradients
  comm::Communicator norms_;
  comm::Communicator image_statistics_, unit_statistics_;  // of batch normalization
  parallel::SynchronizedBatchNorm image_norm_, unit_norm_;
  Tally tally_;
  LocalBuffers buffers_;
  LeftOut left_out_;
  std::vector<double> own_weights_;  // of the rows of this step's batch
  std::uint64_t seed_ = 0;           // of what this step draws, one for each replica
  Phases phases_;
  std::optional<ReducerRows> shared_rows_, divided_rows_;  // of their sums, in a timeline
};

}  // namespace convoy::train
