#include "train/strategies/hybrid/head.h"

#include <utility>

#include "convoy/model/randomness.h"

namespace convoy::train {
namespace {

using Kind = Exchange::Kind;
using torch::Tensor;

std::int64_t rows_of(const data::Range& piece, std::int64_t views) {
  return static_cast<std::int64_t>(piece.size()) * views;
}
std::int64_t rows_of(const Round& round, std::int64_t views) {
  return static_cast<std::int64_t>(round.samples()) * views;
}
std::size_t elements(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

// What comes from each rank, `parts` equal tensors one after the other, added up in their order.
Tensor sum_of(const Tensor& parts, int count, at::IntArrayRef shape, at::ScalarType type) {
  const std::int64_t each = parts.numel() / count;
  Tensor sum = parts.narrow(0, 0, each).to(type, /*non_blocking=*/false, /*copy=*/true);
  for (int i = 1; i < count; ++i) sum.add_(parts.narrow(0, i * each, each));
  return sum.view(shape);
}

// Columns of each partition, as one block after the other.
Tensor blocks_of(const Tensor& columns, const std::vector<std::int64_t>& units) {
  std::vector<Tensor> blocks;
  for (const Tensor& part : columns.split_with_sizes(units, 1))
    blocks.push_back(part.reshape({-1}));
  return torch::cat(blocks);
}

// The reverse.
Tensor columns_of(const Tensor& blocks, const std::vector<std::int64_t>& units, std::int64_t rows) {
  std::vector<Tensor> columns;
  std::int64_t begin = 0;
  for (const std::int64_t width : units) {
    columns.push_back(blocks.narrow(0, begin, rows * width).view({rows, width}));
    begin += rows * width;
  }
  return torch::cat(columns, 1);
}

}  // namespace

// Of all layers, over the samples of one round.
struct Head::Pass {
  std::vector<Tensor> inputs, outputs;  // of each layer; inputs are leaves of its own graph
};

Head::Head(const SplitNetwork& network, Exchange& exchange, const Compute& compute,
           at::ScalarType wire)
    : network_(network),
      exchange_(exchange),
      compute_(compute),
      wire_(wire),
      sums_(wire == torch::kDouble ? torch::kDouble : torch::kFloat) {}

// -- The boundary

Exchange::Transfer Head::start_activations(const HeadInput& input, std::size_t round) {
  const std::int64_t width = network_.head().front().inputs;
  const auto& pieces = input.rounds[round].pieces;
  const data::Range& own = pieces[static_cast<std::size_t>(exchange_.rank())];
  std::vector<std::size_t> counts;
  for (const data::Range& piece : pieces)
    counts.push_back(elements(rows_of(piece, input.views), width));
  const Tensor mine = input.activations.narrow(
      0, static_cast<std::int64_t>(own.begin) * input.views, rows_of(own, input.views));
  return exchange_.start_to_all(Kind::activations, round, mine.to(wire_), counts);
}

Tensor Head::activations_of(const HeadInput& input, std::size_t round,
                            Exchange::Transfer& transfer) {
  return exchange_.finish(transfer)
      .view({rows_of(input.rounds[round], input.views), network_.head().front().inputs})
      .to(compute_.device());
}

Exchange::Transfer Head::start_gradients(const HeadInput& input, std::size_t round,
                                         const Tensor& gradient) {
  const std::int64_t width = network_.head().front().inputs;
  const auto& pieces = input.rounds[round].pieces;
  std::vector<std::size_t> to;
  for (const data::Range& piece : pieces)
    to.push_back(elements(rows_of(piece, input.views), width));
  const std::vector<std::size_t> from(pieces.size(),
                                      to[static_cast<std::size_t>(exchange_.rank())]);
  return exchange_.start_to_each(Kind::gradients, round, gradient.to(wire_), to, from);
}

void Head::add_gradients(const HeadInput& input, std::size_t round, double factor,
                         Exchange::Transfer& transfer, Tensor& sum) {
  const Tensor parts = exchange_.finish(transfer);
  const data::Range& own = input.rounds[round].pieces[static_cast<std::size_t>(exchange_.rank())];
  const std::int64_t rows = rows_of(own, input.views);
  if (rows == 0) return;
  Tensor gradient = sum_of(parts, exchange_.size(), {rows, network_.head().front().inputs}, sums_);
  if (factor != 1) gradient.mul_(factor);
  sum.narrow(0, static_cast<std::int64_t>(own.begin) * input.views, rows).copy_(gradient);
}

// Of each round, one piece after the other.
std::vector<std::vector<std::size_t>> Head::sample_numbers(const HeadInput& input,
                                                           std::span<const std::size_t> own) {
  std::vector<std::vector<std::size_t>> numbers(input.rounds.size());
  if (!network_.drops_units()) return numbers;
  std::vector<std::size_t> counts(static_cast<std::size_t>(exchange_.size()), 0);
  for (const Round& round : input.rounds) {
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      counts[rank] += round.pieces[rank].size();
  }
  const std::vector<std::int64_t> mine(own.begin(), own.end());
  auto transfer = exchange_.start_to_all(
      Kind::samples, 0, torch::tensor(at::ArrayRef<std::int64_t>(mine), torch::kLong), counts);
  const Tensor all = exchange_.finish(transfer);
  const auto* const number = static_cast<const std::int64_t*>(all.const_data_ptr());
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    std::size_t before = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      const data::Range& piece = input.rounds[j].pieces[rank];
      numbers[j].insert(numbers[j].end(), number + before + piece.begin,
                        number + before + piece.end);
      before += counts[rank];
    }
  }
  return numbers;
}

// -- Between layers

Tensor Head::run(std::size_t layer, const Tensor& input) {
  const Autocast autocast = compute_.autocast();
  return network_.head()[layer].part->forward({input}).front();
}

// The units of all partitions, of what this one has.
Tensor Head::all_units(std::size_t layer, const Tensor& own) {
  const std::int64_t rows = own.size(0);
  std::vector<std::size_t> counts;
  for (int q = 0; q < exchange_.size(); ++q) counts.push_back(elements(rows, units(layer, q)));
  auto transfer = exchange_.start_to_all(Kind::between, 0, own.to(wire_), counts);
  return columns_of(exchange_.finish(transfer), network_.head()[layer].units, rows)
      .to(compute_.device());
}

// The gradient of the units of this partition: each rank has a part of everyone's.
Tensor Head::own_units(std::size_t layer, const Tensor& of_all) {
  const std::int64_t rows = of_all.size(0), own = units(layer, exchange_.rank());
  std::vector<std::size_t> to;
  for (int q = 0; q < exchange_.size(); ++q) to.push_back(elements(rows, units(layer, q)));
  const std::vector<std::size_t> from(to.size(), elements(rows, own));
  auto transfer = exchange_.start_to_each(
      Kind::between, 1, blocks_of(of_all.to(wire_), network_.head()[layer].units), to, from);
  return sum_of(exchange_.finish(transfer), exchange_.size(), {rows, own}, sums_)
      .to(compute_.device());
}

// All scores of a sample, to the rank whose sample it is.
Tensor Head::to_owners(const HeadInput& input, std::size_t round, const Tensor& scores) {
  const std::size_t last = network_.head().size() - 1;
  const auto& pieces = input.rounds[round].pieces;
  const auto me = static_cast<std::size_t>(exchange_.rank());
  const std::int64_t rows = rows_of(pieces[me], input.views);
  std::vector<std::size_t> to, from;
  for (int q = 0; q < exchange_.size(); ++q) {
    to.push_back(elements(rows_of(pieces[static_cast<std::size_t>(q)], input.views),
                          units(last, exchange_.rank())));
    from.push_back(elements(rows, units(last, q)));
  }
  auto transfer = exchange_.start_to_each(Kind::scores, 0, scores.to(wire_), to, from);
  return columns_of(exchange_.finish(transfer), network_.head()[last].units, rows)
      .to(compute_.device());
}

// The gradient of this partition's scores, from those whose samples they are of.
Tensor Head::from_owners(const HeadInput& input, std::size_t round, const Tensor& gradient) {
  const std::size_t last = network_.head().size() - 1;
  const auto& pieces = input.rounds[round].pieces;
  const std::int64_t own = units(last, exchange_.rank());
  std::vector<std::size_t> to, from;
  for (int q = 0; q < exchange_.size(); ++q) {
    to.push_back(elements(gradient.size(0), units(last, q)));
    from.push_back(elements(rows_of(pieces[static_cast<std::size_t>(q)], input.views), own));
  }
  auto transfer = exchange_.start_to_each(
      Kind::scores, 1, blocks_of(gradient.to(wire_), network_.head()[last].units), to, from);
  return exchange_.finish(transfer)
      .view({rows_of(input.rounds[round], input.views), own})
      .to(compute_.device());
}

// -- Passes

// The seconds of a phase that ends now, without those that waited for the exchange.
double Head::end_of(const char* phase, Clock::time_point start, double waited_before) {
  const auto now = Clock::now();
  if (timeline_ != nullptr) timeline_->add(Timeline::kTraining, phase, start, now);
  const double waited = exchange_.waited_seconds() - waited_before;
  return std::max(0.0, std::chrono::duration<double>(now - start).count() - waited);
}

void Head::forward(Pass& pass) {
  const std::size_t layers = network_.head().size();
  for (std::size_t l = 0; l < layers; ++l) {
    pass.outputs.push_back(run(l, pass.inputs.back()));
    exchange_.group().advance();
    if (l + 1 < layers)
      pass.inputs.push_back(all_units(l, pass.outputs.back()).requires_grad_(true));
  }
}

// From the gradient of the outputs of the last layer to that of the inputs of the first.
Tensor Head::backward(Pass& pass, Tensor gradient) {
  for (std::size_t l = network_.head().size(); l-- > 0;) {
    pass.outputs[l].backward(gradient.to(pass.outputs[l].scalar_type()));
    exchange_.group().advance();
    gradient = pass.inputs[l].grad();
    if (l > 0) gradient = own_units(l - 1, gradient);
  }
  return gradient;
}

Tensor Head::train(const HeadInput& input, const HeadStep& step) {
  const std::size_t rounds = input.rounds.size();
  const auto numbers = sample_numbers(input, step.samples);
  const auto me = static_cast<std::size_t>(exchange_.rank());
  Tensor sum;
  if (step.gradients) sum = torch::zeros(input.activations.sizes(), sums_);
  const auto factor = [&step](std::size_t j) { return step.factors.empty() ? 1 : step.factors[j]; };
  std::vector<Exchange::Transfer> gradients(rounds);
  Exchange::Transfer next = start_activations(input, 0);
  for (std::size_t j = 0; j < rounds; ++j) {
    Pass pass;
    pass.inputs.push_back(activations_of(input, j, next).requires_grad_(step.gradients));
    if (j + 1 < rounds) next = start_activations(input, j + 1);
    if (input.rounds[j].samples() > 0) {
      auto start = Clock::now();
      double waited = exchange_.waited_seconds();
      Tensor scores;
      {
        const model::RandomScope scope(step.seed, step.step, numbers[j]);
        forward(pass);
        scores = to_owners(input, j, pass.outputs.back());
      }
      seconds_.forward += end_of("forward of partitioned layers", start, waited);
      start = Clock::now();
      waited = exchange_.waited_seconds();
      const bool own = !input.rounds[j].pieces[me].empty();
      const Tensor gradient = own ? step.gradient_of_scores(j, scores) : torch::zeros_like(scores);
      const Tensor back = backward(pass, from_owners(input, j, gradient));
      seconds_.backward += end_of("backward of partitioned layers", start, waited);
      if (step.gradients) gradients[j] = start_gradients(input, j, back);
    }
    if (step.passed) step.passed(j);
    for (std::size_t i = 0; i < j; ++i) {  // whose memory can go
      if (gradients[i].valid() && gradients[i].done())
        add_gradients(input, i, factor(i), gradients[i], sum);
    }
  }
  for (std::size_t j = 0; j < rounds; ++j) {
    if (gradients[j].valid()) add_gradients(input, j, factor(j), gradients[j], sum);
  }
  return sum;
}

Tensor Head::scores(const HeadInput& input) {
  const torch::NoGradGuard no_grad;
  const std::size_t rounds = input.rounds.size();
  const auto me = static_cast<std::size_t>(exchange_.rank());
  std::int64_t classes = 0;
  for (const std::int64_t part : network_.head().back().units) classes += part;
  Tensor all = torch::empty({input.activations.size(0), classes},
                            torch::TensorOptions().dtype(wire_).device(compute_.device()));
  Exchange::Transfer next = start_activations(input, 0);
  for (std::size_t j = 0; j < rounds; ++j) {
    Tensor values = activations_of(input, j, next);
    if (j + 1 < rounds) next = start_activations(input, j + 1);
    if (input.rounds[j].samples() == 0) continue;
    for (std::size_t l = 0; l < network_.head().size(); ++l) {
      values = run(l, values);
      if (l + 1 < network_.head().size()) values = all_units(l, values);
    }
    const Tensor own = to_owners(input, j, values);
    const data::Range& piece = input.rounds[j].pieces[me];
    all.narrow(0, static_cast<std::int64_t>(piece.begin) * input.views, own.size(0)).copy_(own);
  }
  return all;
}

Tensor Head::scores_of_all(const Tensor& activations) {
  const torch::NoGradGuard no_grad;
  Tensor values = activations.to(wire_);
  for (std::size_t l = 0; l < network_.head().size(); ++l) values = all_units(l, run(l, values));
  return values;
}

}  // namespace convoy::train
