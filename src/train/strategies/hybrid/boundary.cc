#include "train/strategies/hybrid/boundary.h"

namespace convoy::train {

using Kind = Exchange::Kind;
using torch::Tensor;

// Of the pieces of a round.
std::vector<std::size_t> Boundary::elements(const HeadInput& input, std::size_t round) const {
  std::vector<std::size_t> counts;
  for (const data::Range& piece : input.rounds[round].pieces)
    counts.push_back(static_cast<std::size_t>(rows_of(piece, input.views) * width_));
  return counts;
}

Exchange::Transfer Boundary::start_activations(const HeadInput& input, std::size_t round) {
  const data::Range& own = own_piece(input, round);
  const Tensor mine = input.activations.narrow(
      0, static_cast<std::int64_t>(own.begin) * input.views, rows_of(own, input.views));
  return exchange_.start_to_all(Kind::activations, round, mine.to(wire_), elements(input, round));
}

Tensor Boundary::finish_activations(const HeadInput& input, std::size_t round,
                                    Exchange::Transfer& transfer) {
  return exchange_.finish(transfer).view({rows_of(input.rounds[round], input.views), width_});
}

Exchange::Transfer Boundary::start_gradients(const HeadInput& input, std::size_t round,
                                             const Tensor& gradient) {
  const std::vector<std::size_t> to = elements(input, round);
  const std::vector<std::size_t> from(to.size(), to[static_cast<std::size_t>(exchange_.rank())]);
  return exchange_.start_to_each(Kind::gradients, round, gradient.to(wire_), to, from);
}

void Boundary::finish_gradients(const HeadInput& input, std::size_t round, double factor,
                                Exchange::Transfer& transfer, Tensor& all) {
  const Tensor parts = exchange_.finish(transfer);
  const data::Range& own = own_piece(input, round);
  const std::int64_t rows = rows_of(own, input.views);
  if (rows == 0) return;
  Tensor gradient = sum_of_parts(parts, exchange_.size(), {rows, width_}, sums_);
  if (factor != 1) gradient.mul_(factor);
  all.narrow(0, static_cast<std::int64_t>(own.begin) * input.views, rows).copy_(gradient);
}

std::vector<std::size_t> Boundary::samples_of_ranks(const HeadInput& input) const {
  std::vector<std::size_t> counts(static_cast<std::size_t>(exchange_.size()), 0);
  for (const Round& round : input.rounds) {
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      counts[rank] += round.pieces[rank].size();
  }
  return counts;
}

Exchange::Transfer Boundary::start_sample_numbers(const HeadInput& input,
                                                  std::span<const std::size_t> own) {
  const std::vector<std::int64_t> mine(own.begin(), own.end());
  return exchange_.start_to_all(Kind::samples, 0,
                                torch::tensor(at::ArrayRef<std::int64_t>(mine), torch::kLong),
                                samples_of_ranks(input));
}

std::vector<std::vector<std::size_t>> Boundary::finish_sample_numbers(
    const HeadInput& input, Exchange::Transfer& transfer) {
  std::vector<std::vector<std::size_t>> numbers(input.rounds.size());
  const std::vector<std::size_t> counts = samples_of_ranks(input);
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

}  // namespace convoy::train
