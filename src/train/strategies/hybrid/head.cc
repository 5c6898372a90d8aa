#include "train/strategies/hybrid/head.h"

#include <algorithm>
#include <utility>

#include "convoy/plan/placement.h"

namespace convoy::train {

using torch::Tensor;

Head::Head(const SplitNetwork& network, Exchange& exchange, const Compute& compute,
           at::ScalarType wire)
    : wire_(wire),
      sums_(wire == torch::kDouble ? torch::kDouble : torch::kFloat),
      parts_{network,
             exchange,
             compute,
             Boundary(exchange, network.head().front().inputs, wire, sums_),
             Between(network, exchange, wire, sums_),
             {},
             nullptr},
      late_(network.head()) {}

// Activations of the rounds that have samples, in their order. One at a time is under way while
// those before wait for theirs: links would only be shared. A next group of passes has all that the
// former one computes for.
class Head::Activations {
 public:
  // `most`: passes of a group.
  Activations(Boundary& boundary, const HeadInput& input, std::size_t most)
      : boundary_(boundary), input_(input), most_(most) {
    for (std::size_t j = 0; j < input.rounds.size(); ++j)
      if (input.rounds[j].samples() > 0) rounds_.push_back(j);
    start_until(1);
  }

  // Of the next round.
  Tensor take() {
    Tensor taken = boundary_.finish_activations(input_, rounds_[taken_], transfers_[taken_]);
    ++taken_;
    start_until(taken_ + (taken_ % most_ == 0 ? most_ : 1));
    return taken;
  }

 private:
  void start_until(std::size_t end) {
    for (std::size_t i = transfers_.size(); i < std::min(end, rounds_.size()); ++i)
      transfers_.push_back(boundary_.start_activations(input_, rounds_[i]));
  }

  Boundary& boundary_;
  const HeadInput& input_;
  std::size_t most_, taken_ = 0;
  std::vector<std::size_t> rounds_;
  std::vector<Exchange::Transfer> transfers_;
};

// In groups of `most`, a step of each in turn: the same order on all ranks. `passed` gets every
// round, without a pass where it has no samples; in order where a group is one pass.
void Head::run_passes(const HeadInput& input, std::size_t most,
                      const std::function<Pass::Plan(std::size_t round)>& plan,
                      const std::function<void(std::size_t round, Pass* pass)>& passed) {
  Activations activations(parts_.boundary, input, most);
  std::vector<Pass> group;
  const auto run = [&] {
    for (bool more = !group.empty(); more;) {
      for (Pass& pass : group) more = pass.advance();  // all have as many steps
    }
    for (Pass& pass : group) passed(pass.round(), &pass);
    group.clear();
  };
  for (std::size_t j = 0; j < input.rounds.size(); ++j) {
    if (input.rounds[j].samples() == 0) {
      passed(j, nullptr);
      continue;
    }
    Pass::Plan next = plan(j);
    next.round = j;
    next.slot = group.size();
    next.activations = [&activations] { return activations.take(); };
    group.emplace_back(parts_, input, std::move(next));
    if (group.size() == most) run();
  }
  run();
}

Tensor Head::train(const HeadInput& input, const HeadStep& step) {
  const std::size_t rounds = input.rounds.size();
  std::vector<std::vector<std::size_t>> numbers(rounds);
  // They travel beside the first activations.
  Exchange::Transfer told;
  if (parts_.network.drops_units())
    told = parts_.boundary.start_sample_numbers(input, step.samples);
  const auto take_numbers = [&] {
    if (!told.valid()) return;
    numbers = parts_.boundary.finish_sample_numbers(input, told);
    told = {};
  };
  Tensor sum;
  if (step.gradients) sum = torch::zeros(input.activations.sizes(), sums_);
  late_.gather(!step.passed);
  std::vector<Exchange::Transfer> gradients(rounds);
  const auto add = [&](std::size_t j) {
    const double factor = step.factors.empty() ? 1 : step.factors[j];
    parts_.boundary.finish_gradients(input, j, factor, gradients[j], sum);
    gradients[j] = {};
  };
  run_passes(
      input, step.passed ? 1 : plan::kPassesUnderWay,
      [&](std::size_t j) {
        take_numbers();
        Pass::Plan plan;
        plan.gradient_of_scores = [&step, j](const Tensor& scores) {
          return step.gradient_of_scores(j, scores);
        };
        plan.gradients = step.gradients;
        plan.seed = step.seed;
        plan.step = step.step;
        plan.samples = numbers[j];
        return plan;
      },
      [&](std::size_t j, Pass* pass) {
        if (step.gradients && pass != nullptr) gradients[j] = pass->take_gradients();
        if (step.passed) step.passed(j);
        for (std::size_t i = 0; i < j; ++i) {  // whose memory can go
          if (gradients[i].valid() && gradients[i].done()) add(i);
        }
      });
  take_numbers();  // also where no round has samples
  for (std::size_t j = 0; j < rounds; ++j) {
    if (!gradients[j].valid()) continue;
    while (!gradients[j].done() && finish_some()) {
    }
    add(j);
  }
  return sum;
}

bool Head::finish_some() {
  if (!late_.left()) return false;
  const Computing computing(parts_, "gradients of partitioned weights", parts_.seconds.backward);
  late_.compute_some();
  return true;
}

Tensor Head::scores(const HeadInput& input) {
  const torch::NoGradGuard no_grad;
  std::int64_t classes = 0;
  for (const std::int64_t part : parts_.network.head().back().units) classes += part;
  Tensor all = torch::empty({input.activations.size(0), classes},
                            torch::TensorOptions().dtype(wire_).device(parts_.compute.device()));
  run_passes(
      input, plan::kPassesUnderWay, [](std::size_t) { return Pass::Plan(); },
      [&](std::size_t j, Pass* pass) {
        if (pass == nullptr) return;
        const auto me = static_cast<std::size_t>(parts_.exchange.rank());
        const data::Range& piece = input.rounds[j].pieces[me];
        const Tensor& own = pass->scores();
        all.narrow(0, static_cast<std::int64_t>(piece.begin) * input.views, own.size(0)).copy_(own);
      });
  return all;
}

Tensor Head::scores_of_all(const Tensor& activations) {
  const torch::NoGradGuard no_grad;
  Tensor values = activations.to(wire_);
  for (std::size_t l = 0; l < parts_.network.head().size(); ++l) {
    auto transfer = parts_.between.start_all_units(0, l, parts_.run(l, values));
    values = parts_.between.finish_all_units(l, transfer).to(parts_.compute.device());
  }
  return values;
}

}  // namespace convoy::train
