#include "train/strategies/downpour/evaluator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/optim/rule.h"
#include "convoy/train/downpour_roles.h"
#include "convoy/train/optimizer_rule.h"
#include "train/due.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

// The optimizer of the inner strategy is what servers do; its state is fetched from them.
class Evaluator::Context final : public InnerContext {
 public:
  Context(TrainerContext& outer, Evaluator& evaluator)
      : InnerContext(outer, evaluator.inner_recipe()), evaluator_(evaluator) {}
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
    evaluator_.parameters_ = parameters;
    return make_telling_optimizer(recipe().optimizer, std::move(parameters), evaluator_.states_,
                                  {});
  }

 private:
  Evaluator& evaluator_;
};

Evaluator::Evaluator(ParameterServiceFactory connect) : connect_(std::move(connect)) {}

Evaluator::~Evaluator() = default;

Arrangement Evaluator::arrange(const comm::World& world, const Recipe& recipe) {
  Arrangement arrangement = Around::arrange(world, recipe);
  check_world(world);
  arrangement.trains = false;
  return arrangement;
}

InnerUse Evaluator::use_of(const NetworkSource& outer) const {
  const auto slots = static_cast<int>(optim::slots(optimizer_rule(outer.job().optimizer)).size());
  // A job that begins from a checkpoint gives servers its slots from blocks of their own.
  return {.trains = false, .copies = 1 + (outer.goes_on() ? 2 : 1) * slots};
}

void Evaluator::prepare(TrainerContext& context, const State* saved) {
  outer_ = &context;
  context_ = std::make_unique<Context>(context, *this);
  inner().prepare(*context_, saved);
  describe(context, parameters_);
  first_ = context.moment();
  block_ = vectors().new_block();
  for (const auto& parameter : states_->parameters) {
    auto& slots = states_->slots[parameter.tensor.unsafeGetTensorImpl()];
    slots.resize(states_->names.size());
    for (torch::Tensor& slot : slots) {
      if (!slot.defined())
        slot = torch::zeros_like(parameter.tensor, {}, torch::MemoryFormat::Preserve).detach();
    }
  }
  begin(saved);
}

// -- What the job begins with

void Evaluator::begin(const State* saved) {
  const comm::Communicator& ranks = outer_->world().communicator();
  bool initialized = false;
  service_ = connect_rank<ParameterService>(ranks, connect_, [&](ParameterService& service) {
    initialized = service.describe(description());
  });
  if (!initialized) {
    on_every_rank(ranks, [this] { check_position(); });
    // Shards take rates when they know what they hold, and replicas begin when it has values.
    on_every_rank(ranks, [this] { service_->initialize({}, {}, 0); });
    set_rates(first_);
    initialize(saved);
  }
  told_ = look().progress;
}

// The coordinator has to hand out what the checkpoint leaves.
void Evaluator::check_position() const {
  const server::JobPlan& plan = service_->plan();
  const data::Position here = outer_->samples().position();
  std::uint64_t there = 0;
  for (const auto& [begin, end] : plan.consumed) there += end - begin;
  // The end of an epoch and the beginning of the next are one.
  const std::uint64_t size = outer_->training_data().size();
  if (here.epoch * size + here.count() == plan.first_epoch * size + there) return;
  throw UsageError("the coordinator's job begins behind " + std::to_string(there) +
                   " samples of epoch " + std::to_string(plan.first_epoch + 1) +
                   ", and the evaluator's behind " + std::to_string(here.count()) + " of epoch " +
                   std::to_string(here.epoch + 1) +
                   ": start both from the same checkpoint, or both without");
}

void Evaluator::initialize(const State* saved) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> slot_blocks;
  for (std::size_t k = 0; saved != nullptr && k < states_->names.size(); ++k)
    slot_blocks.push_back(vectors().new_block());
  std::int64_t steps = saved == nullptr ? 0 : first_.step;
  if (states_->counts && !states_->steps.empty()) {
    steps = 0;
    for (const auto& [parameter, count] : states_->steps) steps = std::max(steps, count);
  }
  for (const OwnVector& own : vectors().own()) {
    vectors().view(block_, own).copy_(own.tensor);
    if (own.statistic) continue;
    const auto& slots = states_->slots.at(own.tensor.unsafeGetTensorImpl());
    for (std::size_t k = 0; k < slot_blocks.size(); ++k)
      vectors().view(slot_blocks[k], own).copy_(slots[k]);
  }
  const auto pushed = vectors().to_push(block_);
  std::vector<std::vector<std::span<const float>>> slots;  // by vector of the description
  if (!slot_blocks.empty()) slots.resize(vectors().specs().size());
  for (const torch::Tensor& block : slot_blocks) {
    for (const server::ReadView& view : vectors().to_push(block)) {
      if (vectors().specs()[view.vector].rule) slots[view.vector].push_back(view.values);
    }
  }
  on_every_rank(outer_->world().communicator(),
                [&] { service_->initialize(pushed, slots, static_cast<std::uint64_t>(steps)); });
}

void Evaluator::set_rates(const Moment& now) {
  const double rate = outer_->schedule().at(now);
  if (rate == rate_) return;
  rate_ = rate;
  if (outer_->world().rank() > 0) return;
  std::vector<std::pair<std::uint32_t, double>> rates;
  for (std::uint32_t i = 0; i < vectors().specs().size(); ++i) {
    if (vectors().specs()[i].rule) rates.emplace_back(i, rate * vectors().scales()[i]);
  }
  service_->set_rates(rates);
}

// -- Where the job is

data::Position Evaluator::position_of(const server::JobProgress& progress) const {
  data::Position position;
  position.epoch = progress.epoch;
  for (const auto& [begin, end] : progress.consumed) position.consumed.push_back({begin, end});
  if (position.consumed.empty() && progress.epoch > first_.whole_epochs()) {
    // An epoch that is over, and nothing of the next: as other strategies say it.
    --position.epoch;
    position.consumed.push_back({0, outer_->training_data().size()});
  }
  return position;
}

// Steps are mini-batches of training.batch: those that are whole since this run began. What has
// been evaluated and saved at one is so for good, and the last one has to come with the last
// sample.
Moment Evaluator::moment_of(const server::JobProgress& progress) const {
  const data::Position position = position_of(progress);
  Moment now;
  now.samples = outer_->training_data().size();
  now.epoch = position.epoch;
  now.consumed = position.count();
  now.epoch_over = is_over(position, now.samples, outer_->recipe());
  const auto batch = static_cast<std::uint64_t>(outer_->recipe().training.batch);
  const std::uint64_t whole = now.samples / batch;
  const bool rest = now.samples % batch != 0 && !outer_->recipe().data.drop_last;
  const std::uint64_t in_epoch = whole + (rest ? 1 : 0);
  const auto steps = [&](const Moment& at) {
    const std::uint64_t batches = at.epoch_over ? in_epoch : at.consumed / batch;
    return static_cast<std::int64_t>(at.epoch * in_epoch + std::min(batches, in_epoch));
  };
  now.step = first_.step + steps(now) - steps(first_);
  // Replicas in the next epoch don't wait for those in this one.
  now.step = std::max(now.step, outer_->moment().step);
  // The coordinator counts samples: whatever mini-batches they make, these were all.
  if (progress.all_done) now.step = std::max(now.step, outer_->recipe().training.steps);
  now.steps = std::max(now.step, outer_->recipe().training.steps);
  return now;
}

Evaluator::Seen Evaluator::share(Seen seen) const {
  const comm::Communicator& ranks = outer_->world().communicator();
  if (ranks.size() == 1) return seen;
  const std::string told = on_rank_0(ranks, [&] {
    std::ostringstream text;
    const server::JobProgress& p = seen.progress;
    text.precision(17);
    text << seen.requests << ' ' << seen.version << ' ' << seen.cut << ' ' << seen.client << ' '
         << p.epoch << ' ' << p.samples << ' ' << p.twice << ' ' << p.redone << ' ' << p.all_done
         << ' ' << p.replicas << ' ' << p.reported.steps << ' ' << p.reported.samples << ' '
         << p.reported.loss_sum << ' ' << p.reported.weight << ' ' << p.ended.empty() << ' '
         << p.consumed.size();
    for (const auto& [begin, end] : p.consumed) text << ' ' << begin << ' ' << end;
    return text.str();
  });
  Seen same = seen;
  server::JobProgress& p = same.progress;
  std::istringstream text(told);
  bool goes_on = true;
  std::size_t ranges = 0;
  text >> same.requests >> same.version >> same.cut >> same.client >> p.epoch >> p.samples >>
      p.twice >> p.redone >> p.all_done >> p.replicas >> p.reported.steps >> p.reported.samples >>
      p.reported.loss_sum >> p.reported.weight >> goes_on >> ranges;
  if (!goes_on && p.ended.empty()) p.ended = "ended";
  if (goes_on) p.ended.clear();
  p.consumed.resize(ranges);
  for (auto& [begin, end] : p.consumed) text >> begin >> end;
  return same;
}

Evaluator::Seen Evaluator::look() {
  Seen seen;
  const bool first = outer_->world().rank() == 0;
  if (first) seen.progress = service_->progress();
  if (first) seen.requests = outer_->requests();
  return share(std::move(seen));
}

// -- What is evaluated and saved

// The cuts of an evaluator that stood still for longer than its lease are dropped: then it makes
// another one, as another client.
void Evaluator::take_cut(Seen& seen) {
  const std::string ended = seen.progress.ended;
  std::exception_ptr problem;
  while (true) {
    const std::uint64_t before = seen.client;
    if (outer_->world().rank() == 0) {
      const server::Cut cut = service_->cut();
      seen.cut = cut.id;
      seen.client = service_->id();
      seen.version = cut.version;
      seen.progress = cut.progress;
      seen.progress.ended = ended;
    }
    seen = share(std::move(seen));
    if (problem && seen.client == before) std::rethrow_exception(problem);
    try {
      return fetch_cut(seen);
    } catch (const Failure&) {
      problem = std::current_exception();
    }
  }
}

void Evaluator::fetch_cut(const Seen& seen) {
  const torch::NoGradGuard no_grad;
  cut_ = server::Cut{seen.cut, seen.progress, seen.version};
  on_every_rank(outer_->world().communicator(),
                [this] { service_->fetch_cut(*cut_, vectors().to_write(block_)); });
  for (const OwnVector& own : vectors().own()) own.tensor.copy_(vectors().view(block_, own));
  const double steps = static_cast<double>(moment_of(seen.progress).step);
  for (const auto& buffer : parallel::unique_buffers(module())) {
    if (buffer.name.ends_with("num_batches_tracked")) buffer.tensor.fill_(steps);
  }
  for (const auto& parameter : states_->parameters) {
    states_->steps[parameter.tensor.unsafeGetTensorImpl()] =
        static_cast<std::int64_t>(seen.version);
  }
  // Also for an evaluation alone: it may reach the target, or be told to stop, which makes a
  // checkpoint due, and what it takes may be too long for the cut to be kept.
  for (std::uint32_t k = 0; k < states_->names.size(); ++k) {
    on_every_rank(outer_->world().communicator(),
                  [&] { service_->fetch_cut_slot(*cut_, k, vectors().to_write(block_, k)); });
    for (const OwnVector& own : vectors().own()) {
      if (own.statistic) continue;
      states_->slots.at(own.tensor.unsafeGetTensorImpl())[k].copy_(vectors().view(block_, own));
    }
  }
}

StepReport Evaluator::report_of(const Seen& seen, std::int64_t updates) {
  const server::JobProgress& p = seen.progress;
  const server::ReplicaReport& now = p.reported;
  const server::ReplicaReport& before = told_.reported;
  StepReport report;
  report.updates = updates;
  report.requests = seen.requests;
  report.learning_rate = rate_;
  report.samples = p.samples - std::min(told_.samples, p.samples);
  report.weight = now.weight - before.weight;
  if (report.weight > 0) loss_ = (now.loss_sum - before.loss_sum) / report.weight;
  report.loss = loss_;
  report.skipped = now.skipped;
  const auto steps = static_cast<double>(std::max<std::uint64_t>(now.steps - before.steps, 1));
  report.data_s = (now.data_wait_s - before.data_wait_s) / steps;
  report.forward_s = (now.compute_s - before.compute_s) / steps;
  report.communication_s =
      (now.fetch_wait_s - before.fetch_wait_s + now.push_wait_s - before.push_wait_s) / steps;
  report.elapsed_s = seconds_since(told_at_);
  told_at_ = Clock::now();
  const server::ShardTotals totals = service_->totals();
  double pushes = 0, sum = 0;
  std::vector<double> histogram;
  for (std::size_t i = 0; i < totals.staleness.size(); ++i) {
    const auto count = static_cast<double>(totals.staleness[i]);
    histogram.push_back(count);
    pushes += count;
    // The middle of what the entry counts.
    sum += count * (i < 16 ? static_cast<double>(i)
                           : 1.5 * static_cast<double>(std::uint64_t{1} << (i - 12)));
  }
  report.more.numbers = {{"replicas", static_cast<double>(p.replicas)},
                         {"used_twice", static_cast<double>(p.twice)},
                         {"portions_redone", static_cast<double>(p.redone)},
                         {"pushes", pushes},
                         {"staleness_mean", pushes > 0 ? sum / pushes : 0},
                         {"pushed_bytes", static_cast<double>(totals.pushed_bytes)},
                         {"fetched_bytes", static_cast<double>(totals.fetched_bytes)}};
  report.more.lists = {{"staleness", histogram}};
  told_ = p;
  return report;
}

void Evaluator::run() {
  told_at_ = Clock::now();
  while (true) {
    Seen seen = look();
    const Moment before = outer_->moment();
    Moment now = moment_of(seen.progress);
    set_rates(now);
    const bool over = seen.progress.all_done || !seen.progress.ended.empty();
    if (over) seen.requests |= seen.progress.all_done ? 0u : kStop;
    // A checkpoint of where the last one is would be no other one.
    if (now.step == before.step) seen.requests &= ~static_cast<std::uint32_t>(kCheckpoint);
    const Due due = due_since(outer_->recipe(), before, now, seen.requests);
    const bool cuts = due.evaluate || due.checkpoint || due.end || over;
    if (cuts) {
      take_cut(seen);
      now = moment_of(seen.progress);
    } else if (seen.progress.reported.steps == told_.reported.steps || now.step == before.step) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    outer_->samples().seek(position_of(seen.progress));
    const bool goes_on = outer_->updated(report_of(seen, now.step - before.step));
    if (cuts && outer_->world().rank() == 0) service_->drop_cut(*cut_);
    cut_.reset();
    if (!goes_on || over) return;
  }
}

// Also of a run that found nothing left to do: one before it may have died in its last moment.
void Evaluator::end(const std::string& why) {
  on_every_rank(outer_->world().communicator(), [&] {
    if (outer_->world().rank() == 0 && service_->ended().empty() &&
        service_->progress().ended.empty())
      service_->end_job(why);
  });
}

RunResult run_evaluator(const comm::World& world, const Registry& registry, const Recipe& recipe,
                        const ParameterServiceFactory& connect, TrainerOptions options) {
  Evaluator* evaluator = nullptr;  // the trainer's
  options.strategy = [connect, &evaluator] {
    auto made = std::make_unique<Evaluator>(connect);
    evaluator = made.get();
    return made;
  };
  Trainer trainer(world, registry, recipe, options);
  const RunResult result = trainer.run();
  // Told to stop, it leaves the job to another evaluator.
  if (!result.stopped)
    evaluator->end(result.target_reached ? "training.target is reached" : "all is trained");
  return result;
}

}  // namespace convoy::train
