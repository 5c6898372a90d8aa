#include "train/strategies/downpour/replica.h"

#include <utility>

#include "convoy/base/error.h"
#include "train/rank_work.h"

namespace convoy::train {

// What the inner strategy sees: leased samples, an optimizer that only gathers, and where in the
// data the mini-batch at hand is.
class Replica::Context final : public InnerContext {
 public:
  Context(TrainerContext& outer, Replica& replica)
      : InnerContext(outer, replica.inner_recipe()), replica_(replica) {}

  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
    replica_.parameters_ = parameters;
    return make_telling_optimizer(recipe().optimizer, std::move(parameters),
                                  std::make_shared<RuleStates>(),
                                  {[this](double lr) { replica_.exchange_->set_learning_rate(lr); },
                                   [this] { replica_.exchange_->gather(); }});
  }
  data::SampleSource& samples() override {
    return replica_.source_ ? *replica_.source_ : outer().samples();
  }
  const Moment& moment() const override { return moment_ = replica_.now(); }
  bool updated(const StepReport& report) override { return replica_.updated(report); }
  void stopped() override { replica_.stop(); }

 private:
  Replica& replica_;
  mutable Moment moment_;
};

Replica::Replica(ParameterServiceFactory connect) : connect_(std::move(connect)) {}

Replica::~Replica() {
  if (source_) source_->disconnect();
  if (exchange_) exchange_->disconnect();
}

Arrangement Replica::arrange(const comm::World& world, const Recipe& recipe) {
  Arrangement arrangement = Around::arrange(world, recipe);
  downpour_ = downpour_of(recipe);
  check_world(world);
  arrangement.owner = -1;
  arrangement.portions = portions_;
  return arrangement;
}

void Replica::prepare(TrainerContext& context, const State*) {
  outer_ = &context;
  context_ = std::make_unique<Context>(context, *this);
  inner().prepare(*context_, nullptr);
  describe(context, parameters_);
  const comm::Communicator& ranks = context.world().communicator();
  const Recipe& recipe = inner_recipe();
  exchange_.emplace(ranks, vectors(), downpour_);
  source_.emplace(ranks, context.samples(), portions_,
                  static_cast<std::size_t>(recipe.training.batch),
                  static_cast<std::size_t>(recipe.data.ahead), !downpour_.rounds());
}

// Of one that trains alone these are updates; random numbers go by them.
Moment Replica::now() const {
  Moment moment;
  moment.samples = outer_->samples().size();
  if (!source_) return moment;
  const data::EpochPart& part = source_->part();
  const auto batch = static_cast<std::size_t>(outer_->recipe().training.batch);
  const std::size_t in_epoch = (moment.samples + batch - 1) / batch;
  moment.epoch = part.epoch;
  moment.consumed = part.positions.begin;
  moment.step = static_cast<std::int64_t>(part.epoch * in_epoch + moment.consumed / batch);
  moment.steps = moment.step;
  return moment;
}

bool Replica::goes_on(Exchange::Outcome outcome) {
  if (outcome == Exchange::Outcome::lost) reason_ = Reason::lost;
  if (outcome == Exchange::Outcome::ended) reason_ = Reason::ended;
  return outcome == Exchange::Outcome::go_on;
}

bool Replica::flush() {
  const bool whole = goes_on(exchange_->flush());
  if (whole) source_->acknowledged(exchange_->acknowledged());
  return whole;
}

void Replica::stop() {
  if (flush()) reason_ = Reason::stopped;
}

bool Replica::more() {
  const auto asked = [this] { return (outer_->requests() & kStop) != 0; };
  LeasedSource::More more;
  while ((more = source_->more([this] { return flush(); }, asked)) == LeasedSource::More::none) {
    if (!goes_on(exchange_->pass(source_->progress()))) return false;
    source_->acknowledged(exchange_->acknowledged());
  }
  switch (more) {
    case LeasedSource::More::yes:
    case LeasedSource::More::none:
      return true;
    case LeasedSource::More::late:
      // Others have gone on meanwhile: after a warm start, far beyond the first weights.
      return downpour_.rounds() || goes_on(exchange_->refresh());
    case LeasedSource::More::finished:
      reason_ = Reason::finished;
      break;
    case LeasedSource::More::stopped:
      stop();
      break;
    case LeasedSource::More::gone:
      if (reason_ == Reason::none)
        reason_ = service_->ended().empty() ? Reason::lost : Reason::ended;
      break;
  }
  return false;
}

void Replica::tell(const StepReport& report) {
  server::ReplicaReport told;
  told.steps = 1;
  told.samples = report.samples;
  told.loss_sum = report.loss * report.weight;
  told.weight = report.weight;
  told.compute_s = report.forward_s + report.backward_s + report.update_s + report.communication_s;
  told.data_wait_s = report.data_s;
  told.fetch_wait_s =
      exchange_->fetch_wait_s() - std::exchange(fetch_waited_, exchange_->fetch_wait_s());
  told.push_wait_s =
      exchange_->push_wait_s() - std::exchange(push_waited_, exchange_->push_wait_s());
  told.skipped = report.skipped;
  source_->report(told);
}

bool Replica::updated(const StepReport& report) {
  // Throws: what is not finite reaches no server.
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) outer_->updated(report);
  const bool whole = goes_on(
      exchange_->mini_batch_done(report.samples, source_->progress(), source_->portion_ends()));
  ++result_.steps;
  result_.samples += report.samples;
  tell(report);  // before the portion is known to be done
  source_->acknowledged(exchange_->acknowledged());
  const bool outer = outer_->updated(report);
  if (!whole) return false;
  if (!outer || (report.requests & kStop) != 0) {
    stop();
    return false;
  }
  return more();
}

void Replica::run() {
  const comm::Communicator& ranks = outer_->world().communicator();
  while (true) {
    reason_ = Reason::none;
    service_ = connect_rank<ParameterService>(ranks, connect_, [this](ParameterService& service) {
      if (!service.ended().empty()) return;
      try {
        service.join(description(), vectors().pushed());
      } catch (const Failure&) {
        if (service.ended().empty()) throw;  // it was over before it could join
      }
    });
    if (exchange_->any(!service_->ended().empty())) {
      reason_ = Reason::ended;
      result_.ended = service_->ended();
      break;
    }
    ++result_.joined;
    if (goes_on(exchange_->catch_up(*service_))) {
      source_->connect(*service_);
      if (goes_on(exchange_->connect(*service_)) && more()) inner().run();
      source_->disconnect();
    }
    const bool in_order = reason_ == Reason::finished || reason_ == Reason::stopped;
    exchange_->disconnect();
    if (in_order) service_->leave();
    result_.ended = service_->ended();
    if (reason_ == Reason::lost) {
      outer_->world().log().warning(
          "this replica was taken for dead, since nothing was heard of it for downpour.lease_s: it "
          "begins anew with the parameters of now");
      continue;
    }
    break;
  }
  result_.stopped = reason_ == Reason::stopped;
}

ReplicaResult Replica::result() const {
  ReplicaResult result = result_;
  if (exchange_) {
    result.pushes = exchange_->pushes();
    result.fetches = exchange_->fetches();
    result.dropped = exchange_->dropped();
  }
  return result;
}

}  // namespace convoy::train
