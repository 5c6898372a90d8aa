#include "train/strategies/hybrid/head.h"

#include <deque>
#include <utility>

namespace convoy::train {
namespace {

using torch::Tensor;

// Passes at a time, where one need not have ended before the next begins. While what one needs
// travels, the other computes; more of them would only need more memory.
constexpr std::size_t kUnderWay = 2;

}  // namespace

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

// `most` at a time, a step of each in turn: the same order on all ranks. While they compute, the
// activations of those that are next travel. `passed` gets every round, without a pass where it has
// no samples; in order where one pass is under way at a time.
void Head::run_passes(const HeadInput& input, std::size_t most,
                      const std::function<Pass::Plan(std::size_t round)>& plan,
                      const std::function<void(std::size_t round, Pass* pass)>& passed) {
  const std::size_t rounds = input.rounds.size();
  std::deque<Exchange::Transfer> coming;  // activations
  std::size_t asked = 0, begun = 0;       // rounds
  std::size_t passes = 0;
  const auto ask = [&] {
    for (; asked < rounds && coming.size() < most; ++asked)
      coming.push_back(parts_.boundary.start_activations(input, asked));
  };
  std::deque<Pass> under_way;
  const auto begin = [&] {
    for (; begun < rounds && under_way.size() < most; ++begun) {
      if (coming.empty()) ask();
      Exchange::Transfer activations = std::move(coming.front());
      coming.pop_front();
      if (input.rounds[begun].samples() == 0) {
        parts_.exchange.finish(activations);
        passed(begun, nullptr);
        continue;
      }
      Pass::Plan next = plan(begun);
      next.round = begun;
      next.slot = passes++ % most;
      next.activations = std::move(activations);
      under_way.emplace_back(parts_, input, std::move(next));
    }
    ask();
  };
  for (begin(); !under_way.empty(); begin()) {
    std::deque<Pass> going_on;
    for (Pass& pass : under_way) {
      if (pass.advance()) {
        going_on.push_back(std::move(pass));
      } else {
        passed(pass.round(), &pass);
      }
    }
    under_way = std::move(going_on);
  }
}

Tensor Head::train(const HeadInput& input, const HeadStep& step) {
  const std::size_t rounds = input.rounds.size();
  std::vector<std::vector<std::size_t>> numbers(rounds);
  if (parts_.network.drops_units()) numbers = parts_.boundary.sample_numbers(input, step.samples);
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
      input, step.passed ? 1 : kUnderWay,
      [&](std::size_t j) {
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
  for (std::size_t j = 0; j < rounds; ++j) {
    if (!gradients[j].valid()) continue;
    while (!gradients[j].done() && finish_some()) {
    }
    add(j);
  }
  return sum;
}

bool Head::finish_some() {
  const auto start = Clock::now();
  if (!late_.compute_some()) return false;
  parts_.seconds.backward += parts_.end_of("gradients of partitioned weights", start);
  return true;
}

Tensor Head::scores(const HeadInput& input) {
  const torch::NoGradGuard no_grad;
  std::int64_t classes = 0;
  for (const std::int64_t part : parts_.network.head().back().units) classes += part;
  Tensor all = torch::empty({input.activations.size(0), classes},
                            torch::TensorOptions().dtype(wire_).device(parts_.compute.device()));
  run_passes(
      input, kUnderWay, [](std::size_t) { return Pass::Plan(); },
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
