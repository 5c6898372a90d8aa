#include "train/strategies/sandblaster/replica.h"

#include <array>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/server/batch_worker.h"
#include "convoy/train/sandblaster.h"
#include "train/rank_work.h"
#include "train/strategies/sandblaster/ranks.h"

namespace convoy::train {

BatchReplica::BatchReplica(BatchServiceFactory connect, BatchReplicaOptions options)
    : connect_(std::move(connect)), options_(std::move(options)) {}

BatchReplica::~BatchReplica() = default;

Arrangement BatchReplica::arrange(const comm::World& world, const Recipe& recipe) {
  Arrangement arrangement = Around::arrange(world, recipe);
  check_world(world);
  arrangement.owner = -1;
  arrangement.portions = portions_;
  return arrangement;
}

void BatchReplica::build(const NetworkSource& source) {
  Around::build(source);
  const OneFunction minimized(inner().module());
}

void BatchReplica::prepare(TrainerContext& context, const State*) {
  outer_ = &context;
  context_ = std::make_unique<PortionContext>(context, inner_recipe());
  inner().prepare(*context_, nullptr);
  describe(context, context_->parameters());
  source_.emplace(context.samples(), portions_,
                  static_cast<std::uint64_t>(inner_recipe().training.batch),
                  portion_samples(context.recipe()));
}

void BatchReplica::connect() {
  service_ = connect_rank<BatchService>(outer_->world().communicator(), connect_,
                                        [this](BatchService& service) {
                                          if (!service.ended().empty()) return;
                                          try {
                                            service.join(description(), vectors().pushed());
                                          } catch (const Failure&) {
                                            if (service.ended().empty())
                                              throw;  // it was over before it could join
                                          }
                                        });
}

namespace {

bool anywhere(const comm::Communicator& ranks, bool here) {
  std::array<std::int64_t, 1> any{here ? 1 : 0};
  if (ranks.size() > 1) ranks.allreduce(comm::buffer_of(any), comm::ReduceOp::max);
  return any[0] > 0;
}

}  // namespace

// The first rank's. Why the job is over, or nothing where it was told to stop.
template <typename T>
std::string BatchReplica::work(PortionRanks<T>& together) {
  server::WorkerOptions options;
  options.stop = [this] { return told_to_stop(); };
  server::PortionWorker<T, PortionRanks<T>> worker(together, together, options);
  const auto count = [&] {
    result_.portions += worker.counts().portions;
    result_.copies += worker.counts().copies;
    result_.unused += worker.counts().unused;
    result_.evaluations += worker.counts().evaluations;
  };
  try {
    const std::string why = worker.run();
    count();
    return why;
  } catch (...) {
    count();
    throw;
  }
}

template <typename T>
void BatchReplica::run_as() {
  const comm::Communicator& ranks = outer_->world().communicator();
  PortionPass<T> pass(inner(), *context_, vectors(), *source_);
  while (true) {
    connect();
    if (anywhere(ranks, !service_->ended().empty())) {
      result_.ended = service_->ended();
      return;
    }
    ++result_.joined;
    PortionRanks<T> together(ranks, *service_, pass, *source_);
    bool lost = false, stopped = false;
    try {
      if (ranks.rank() > 0) {
        together.follow();
      } else {
        result_.ended = work(together);
        stopped = result_.ended.empty();
      }
    } catch (const Failure&) {
      const bool ended = !service_->ended().empty();
      if (!together.gone() && !service_->lost() && !ended) throw;
      lost = !ended;
    }
    if (ranks.rank() == 0) together.finish();
    lost = anywhere(ranks, lost && service_->ended().empty());
    if (!lost) {
      result_.stopped = anywhere(ranks, stopped);
      if (result_.stopped) service_->leave();
      if (result_.ended.empty()) result_.ended = service_->ended();
      return;
    }
    outer_->world().log().warning(
        "this replica was taken for dead, since nothing was heard of it for sandblaster.lease_s: "
        "it takes part again as another one");
  }
}

void BatchReplica::run() {
  if (batch_element(outer_->recipe()) == server::Element::f64) return run_as<double>();
  run_as<float>();
}

}  // namespace convoy::train
