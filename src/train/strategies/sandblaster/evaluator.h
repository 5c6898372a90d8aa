// The evaluator of a Sandblaster job, as a strategy whose updates others make.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/train/moment.h"
#include "convoy/train/sandblaster_roles.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/sandblaster/saved.h"
#include "train/strategies/sandblaster/space.h"

namespace convoy::train {

// An update is an iteration of the method, and an epoch: every iteration looks at all samples.
class BatchEvaluator final : public Around {
 public:
  explicit BatchEvaluator(BatchServiceFactory connect);
  ~BatchEvaluator() override;

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void build(const NetworkSource& source) override;
  void prepare(TrainerContext& context, const State* saved) override;
  // With the method's state and vectors, where the weights are those of an iteration's end.
  State state() override;
  // Follows the job until the trainer says no, or the method is over.
  void run() override;
  // Ends the job, unless it is over. Collective.
  void end(const std::string& why);
  // Why there are no more iterations; empty where the trainer has ended it.
  const std::string& over() const { return over_; }

 private:
  class Context;
  // What the first rank has seen, for all: of it what all need.
  struct Seen {
    server::BatchProgress progress;  // on other ranks the state's weights and iteration alone
    std::uint32_t requests = 0;
    bool over = false;     // there are no more iterations
    bool certain = false;  // it is known whether there are more
  };

  // Others train. Beside the network it has what it fetches of a state for a checkpoint.
  InnerUse use_of(const NetworkSource& outer) const override;
  template <typename T>
  void give_weights();
  template <typename T>
  void fetch_weights(const optim::VectorName& name);
  void begin(const State* saved);
  void check_memory() const;
  void let_go();
  Seen look(bool hold);
  // With the network's weights those of what is returned. `all`: saved_, too.
  Seen take_weights(bool all);
  void fetch_saved();
  data::Position position_of(std::int64_t iteration) const;
  Moment moment_of(const Seen& seen) const;
  StepReport report_of(const Seen& seen);
  void note_groups(const server::BatchProgress& progress);
  void note_totals();
  MetricsRow iteration_row(const server::BatchProgress& progress) const;
  MetricsRow take_groups(std::int64_t step);
  void check_beginning(const Seen& seen);

  BatchServiceFactory connect_;
  TrainerContext* outer_ = nullptr;
  std::unique_ptr<Context> context_;
  std::vector<parallel::NamedTensor> parameters_;
  std::unique_ptr<BatchService> service_;
  Clock::time_point told_at_ = Clock::now();
  std::string over_;

  // While it has the vectors of what the network has now, or the shards hold them.
  bool holds_ = false;
  optim::BatchState held_state_;  // on the first rank
  std::optional<SavedBatch> saved_;
  // Groups that the trainer wasn't told yet; times are since this was made.
  const Clock::time_point began_ = Clock::now();
  std::uint64_t term_ = 0, last_record_ = 0;
  std::vector<server::GroupRecord> groups_;
  std::map<std::uint64_t, std::string> replicas_;
  server::ShardTotals totals_;  // on the first rank
};

}  // namespace convoy::train
