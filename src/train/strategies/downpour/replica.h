// A replica of a Downpour job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/train/downpour.h"
#include "convoy/train/downpour_roles.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/downpour/exchange.h"
#include "train/strategies/downpour/leased_source.h"

namespace convoy::train {

class Replica final : public Around {
 public:
  explicit Replica(ParameterServiceFactory connect);
  ~Replica() override;

  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  void prepare(TrainerContext& context, const State* saved) override;
  // Trains until nothing is left to do, the job ends or TrainerContext::updated says no.
  void run() override;

  ReplicaResult result() const;

 private:
  class Context;
  enum class Reason : std::uint8_t { none, finished, stopped, lost, ended };

  bool goes_on(Exchange::Outcome outcome);
  bool updated(const StepReport& report);
  bool more();
  bool flush();
  void stop();
  void tell(const StepReport& report);
  Moment now() const;

  ParameterServiceFactory connect_;
  DownpourRecipe downpour_;
  std::shared_ptr<data::Portions> portions_ = std::make_shared<data::Portions>();
  TrainerContext* outer_ = nullptr;
  std::unique_ptr<Context> context_;
  std::vector<parallel::NamedTensor> parameters_;  // that are trained
  // In this order: exchange and source use the service, and end before it.
  std::unique_ptr<ParameterService> service_;
  std::optional<Exchange> exchange_;
  std::optional<LeasedSource> source_;
  Reason reason_ = Reason::none;
  ReplicaResult result_;
  double fetch_waited_ = 0, push_waited_ = 0;  // that was told
};

}  // namespace convoy::train
