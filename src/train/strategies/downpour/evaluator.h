// The evaluator of a Downpour job, as a strategy whose updates others make.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/train/moment.h"
#include "train/strategies/downpour/around.h"

namespace convoy::train {

class Evaluator final : public Around {
 public:
  explicit Evaluator(ParameterServiceFactory connect);
  ~Evaluator() override;

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void prepare(TrainerContext& context, const State* saved) override;
  // Follows the job until the trainer says no, or the job is over.
  void run() override;
  // Ends the job, unless it is over. Collective.
  void end(const std::string& why);

 private:
  class Context;
  // What the first rank has seen, for all.
  struct Seen {
    server::JobProgress progress;
    std::uint32_t requests = 0;
    std::uint64_t version = 0;
    std::uint64_t cut = 0;     // 0: none was made
    std::uint64_t client = 0;  // whose it is
  };

  // Others train. Beside the network it has what it fetches, and the states of the rules.
  InnerUse use_of(const NetworkSource& outer) const override;
  void begin(const State* saved);
  void initialize(const State* saved);
  void check_position() const;
  Moment moment_of(const server::JobProgress& progress) const;
  data::Position position_of(const server::JobProgress& progress) const;
  void set_rates(const Moment& now);
  Seen look();
  Seen share(Seen seen) const;
  // Makes one, and fetches it, with the rules' states.
  void take_cut(Seen& seen);
  void fetch_cut(const Seen& seen);
  StepReport report_of(const Seen& seen, std::int64_t updates);

  ParameterServiceFactory connect_;
  TrainerContext* outer_ = nullptr;
  std::unique_ptr<Context> context_;
  std::vector<parallel::NamedTensor> parameters_;
  std::shared_ptr<RuleStates> states_ = std::make_shared<RuleStates>();
  std::unique_ptr<ParameterService> service_;
  torch::Tensor block_;
  std::optional<server::Cut> cut_;  // at hand
  double rate_ = -1;                // that was set last
  Moment first_;                    // of this run
  server::JobProgress told_;        // that the trainer knows
  Clock::time_point told_at_ = Clock::now();
  double loss_ = 0;
};

}  // namespace convoy::train
