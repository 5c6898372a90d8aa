#include "train/strategies/downpour/exchange.h"

#include <algorithm>
#include <array>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::train {

Exchange::Exchange(const comm::Communicator& ranks, const Vectors& vectors,
                   const DownpourRecipe& recipe)
    : ranks_(ranks.duplicate()),
      vectors_(vectors),
      recipe_(recipe),
      gathered_(vectors.new_block()),
      pushed_(vectors.new_block()),
      fetched_(vectors.new_block()) {
  if (!recipe_.rounds() && recipe_.local_steps == "again") lacking_ = vectors.new_block();
  before_.resize(vectors.own().size());
}

// In rounds nobody moves by itself.
double Exchange::rate_of(const OwnVector& own) const {
  if (recipe_.rounds()) return 0;
  return (recipe_.local_lr > 0 ? recipe_.local_lr : lr_) * own.scale;
}

bool Exchange::any(bool here) const {
  if (ranks_.size() == 1) return here;
  std::array<std::int64_t, 1> ranks{here ? 1 : 0};
  ranks_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::max);
  return ranks[0] > 0;
}

Exchange::Outcome Exchange::connect(ParameterService& service) {
  service_ = &service;
  gathered_.zero_();
  gathered_samples_ = 0;
  gathered_any_ = push_due_ = fetch_due_ = false;
  mini_batches_ = 0;
  progress_ = pushed_progress_ = acknowledged_ = {};
  begin_fetch();
  return end_fetch();
}

Exchange::Outcome Exchange::catch_up(ParameterService& service) {
  service_ = &service;
  std::string error;
  try {
    service.catch_up();
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  return agree(error);
}

void Exchange::disconnect() {
  for (Errand* errand : {&fetch_, &push_}) {
    try {
      errand->finish();
    } catch (const std::exception&) {  // it went with the service
    }
  }
  service_ = nullptr;
}

void Exchange::gather() {
  const torch::NoGradGuard no_grad;
  if (!gathered_any_) gathered_base_ = base_;
  gathered_any_ = true;
  for (const OwnVector& own : vectors_.own()) {
    if (own.statistic || !own.tensor.grad().defined()) continue;
    const torch::Tensor gradient = own.tensor.grad();
    vectors_.view(gathered_, own).add_(gradient.cpu());
    const double rate = rate_of(own);
    if (rate == 0) continue;
    own.tensor.sub_(gradient, rate);
    if (lacking_.defined() && fetch_.under_way())
      vectors_.view(lacking_, own).sub_(gradient.cpu(), rate);
  }
}

// What the network's statistics have moved by.
void Exchange::take_moves() {
  const torch::NoGradGuard no_grad;
  const auto& all = vectors_.own();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].statistic) continue;
    const torch::Tensor move = (all[i].tensor - before_[i]).cpu();
    vectors_.view(gathered_, all[i]).add_(move);
    if (lacking_.defined() && fetch_.under_way()) vectors_.view(lacking_, all[i]).add_(move);
    before_[i].copy_(all[i].tensor);
  }
}

void Exchange::begin_push() {
  push_due_ = false;
  std::swap(gathered_, pushed_);
  gathered_.zero_();
  // A share without anything that counts is one of a round all the same.
  const std::uint64_t samples = std::max<std::uint64_t>(gathered_samples_, 1);
  const std::uint64_t base = gathered_any_ ? gathered_base_ : base_;
  gathered_samples_ = 0;
  gathered_any_ = false;
  pushed_progress_ = progress_;
  push_.start([this, samples, base, views = vectors_.to_push(pushed_)] {
    result_ = {};
    if (views.empty()) return;  // another rank has all that this one has
    result_ =
        service_->push(views, samples, {pushed_progress_.portion, pushed_progress_.samples}, base);
  });
}

// All ranks learn what has failed on one of them.
Exchange::Outcome Exchange::agree(const std::string& error) {
  if (!any(!error.empty())) return Outcome::go_on;
  if (any(service_->lost())) return Outcome::lost;
  if (any(!service_->ended().empty())) return Outcome::ended;
  throw Failure(error.empty() ? "another rank of this replica could not reach its servers" : error);
}

Exchange::Outcome Exchange::finish(Errand& errand, double& wait_s) {
  const auto start = Clock::now();
  std::string error;
  try {
    errand.finish();
  } catch (const Failure& failure) {
    error = failure.what();
  }
  wait_s += seconds_since(start);
  return agree(error);
}

Exchange::Outcome Exchange::end_push() {
  const Outcome came = finish(push_, push_wait_s_);
  if (came != Outcome::go_on) return came;
  ++pushes_;
  if (result_.kind == server::PushResult::Kind::refused)
    throw Failure("a server refuses the gradient of portion " +
                  std::to_string(pushed_progress_.portion) + ": " + result_.why);
  if (any(result_.kind == server::PushResult::Kind::fetch_again)) {
    // What it was of is used up: of an older network it would do no good.
    ++dropped_;
    fetch_due_ = true;
  }
  acknowledged_ = pushed_progress_;
  return Outcome::go_on;
}

void Exchange::begin_fetch() {
  const torch::NoGradGuard no_grad;
  fetch_due_ = false;
  if (lacking_.defined()) {
    const bool pushing = push_.under_way();
    for (const OwnVector& own : vectors_.own()) {
      torch::Tensor lacking = vectors_.view(lacking_, own);
      lacking.copy_(vectors_.view(gathered_, own));
      if (pushing) lacking.add_(vectors_.view(pushed_, own));
      if (!own.statistic) lacking.mul_(-rate_of(own));
    }
  }
  fetch_.start([this, views = vectors_.to_write(fetched_)] {
    service_->fetch(views);
    fetched_count_ = service_->fetches();
  });
}

Exchange::Outcome Exchange::end_fetch() {
  const torch::NoGradGuard no_grad;
  const Outcome came = finish(fetch_, fetch_wait_s_);
  if (came != Outcome::go_on) return came;
  ++fetches_;
  const auto& all = vectors_.own();
  for (const OwnVector& own : all) {
    own.tensor.copy_(vectors_.view(fetched_, own));
    if (lacking_.defined()) own.tensor.add_(vectors_.view(lacking_, own).to(own.tensor.device()));
  }
  vectors_.share(ranks_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].statistic) before_[i] = all[i].tensor.clone();
  }
  base_ = fetched_count_;
  return Outcome::go_on;
}

Exchange::Agreed Exchange::agree() {
  Agreed agreed{push_.done(), fetch_.done(), service_->lost(), !service_->ended().empty()};
  if (ranks_.size() == 1) return agreed;
  std::array<std::int64_t, 4> ranks{agreed.push_done ? 0 : 1, agreed.fetch_done ? 0 : 1,
                                    agreed.lost ? 1 : 0, agreed.ended ? 1 : 0};
  ranks_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::max);
  return {ranks[0] == 0, ranks[1] == 0, ranks[2] > 0, ranks[3] > 0};
}

Exchange::Outcome Exchange::outcome(const Agreed& agreed) const {
  if (agreed.ended) return Outcome::ended;
  return agreed.lost ? Outcome::lost : Outcome::go_on;
}

// Synchronous SGD: wait until all have pushed, fetch.
Exchange::Outcome Exchange::end_round() {
  const Outcome came = end_push();
  if (came != Outcome::go_on) return came;
  begin_fetch();
  return end_fetch();
}

Exchange::Outcome Exchange::pass(const PortionProgress& progress) {
  const Outcome before = outcome(agree());
  if (before != Outcome::go_on) return before;
  progress_ = pushed_progress_ = progress;
  const bool any_here = !vectors_.to_push(pushed_).empty();  // else another rank has everything
  push_.start([this, any_here] {
    result_ = {};
    if (!any_here) return;
    result_ = service_->push({}, 0, {pushed_progress_.portion, pushed_progress_.samples}, base_);
  });
  return end_round();
}

Exchange::Outcome Exchange::mini_batch_done(std::uint64_t samples, const PortionProgress& progress,
                                            bool portion_ends) {
  take_moves();
  gathered_samples_ += samples;
  progress_ = progress;
  ++mini_batches_;
  if (recipe_.rounds()) {
    const Outcome before = outcome(agree());
    if (before != Outcome::go_on) return before;
    begin_push();
    return end_round();
  }
  const auto each = [this](std::int64_t n) {
    return mini_batches_ % static_cast<std::uint64_t>(n) == 0;
  };
  push_due_ = push_due_ || each(recipe_.n_push) || portion_ends;
  fetch_due_ = fetch_due_ || each(recipe_.n_fetch);
  const Agreed agreed = agree();
  if (outcome(agreed) != Outcome::go_on) return outcome(agreed);
  // What was fetched is taken over before anything new begins, and pushes before fetches, which
  // then know what they lack.
  Outcome came = agreed.fetch_done ? end_fetch() : Outcome::go_on;
  if (came == Outcome::go_on && agreed.push_done) came = end_push();
  if (came != Outcome::go_on) return came;
  if (push_due_ && !push_.under_way()) begin_push();
  if (fetch_due_ && !fetch_.under_way()) begin_fetch();
  return Outcome::go_on;
}

Exchange::Outcome Exchange::refresh() {
  const Outcome came = fetch_.under_way() ? end_fetch() : Outcome::go_on;
  if (came != Outcome::go_on) return came;
  begin_fetch();
  return end_fetch();
}

Exchange::Outcome Exchange::flush() {
  Outcome came = push_.under_way() ? end_push() : Outcome::go_on;
  if (came == Outcome::go_on && !(progress_ == acknowledged_)) {
    begin_push();
    came = end_push();
  }
  return came == Outcome::go_on ? outcome(agree()) : came;
}

}  // namespace convoy::train
