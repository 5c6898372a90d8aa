#include "train/strategies/hybrid/between.h"

#include <numeric>

namespace convoy::train {
namespace {

using Kind = Exchange::Kind;
using torch::Tensor;

std::size_t elements(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

// Forth and back.
std::size_t key_of(std::size_t slot, bool back) { return 2 * slot + (back ? 1 : 0); }

// Columns of each partition, as one block after the other.
Tensor blocks_of(const Tensor& columns, const std::vector<std::int64_t>& units) {
  std::vector<Tensor> blocks;
  for (const Tensor& part : columns.split_with_sizes(units, 1))
    blocks.push_back(part.reshape({-1}));
  return torch::cat(blocks);
}

// The reverse.
Tensor columns_of(const Tensor& blocks, const std::vector<std::int64_t>& units) {
  const std::int64_t all = std::accumulate(units.begin(), units.end(), std::int64_t{0});
  const std::int64_t rows = blocks.numel() / all;
  std::vector<Tensor> columns;
  std::int64_t begin = 0;
  for (const std::int64_t width : units) {
    columns.push_back(blocks.narrow(0, begin, rows * width).view({rows, width}));
    begin += rows * width;
  }
  return torch::cat(columns, 1);
}

}  // namespace

Exchange::Transfer Between::start_all_units(std::size_t slot, std::size_t layer,
                                            const Tensor& own) {
  std::vector<std::size_t> counts;
  for (const std::int64_t count : units(layer)) counts.push_back(elements(own.size(0), count));
  return exchange_.start_to_all(Kind::between, key_of(slot, false), own.to(wire_), counts);
}

Tensor Between::finish_all_units(std::size_t layer, Exchange::Transfer& transfer) {
  return columns_of(exchange_.finish(transfer), units(layer));
}

Exchange::Transfer Between::start_own_units(std::size_t slot, std::size_t layer,
                                            const Tensor& of_all) {
  const std::int64_t rows = of_all.size(0);
  std::vector<std::size_t> to;
  for (const std::int64_t count : units(layer)) to.push_back(elements(rows, count));
  const std::vector<std::size_t> from(to.size(), elements(rows, own_units(layer)));
  return exchange_.start_to_each(Kind::between, key_of(slot, true),
                                 blocks_of(of_all.to(wire_), units(layer)), to, from);
}

Tensor Between::finish_own_units(std::size_t layer, Exchange::Transfer& transfer) {
  const Tensor parts = exchange_.finish(transfer);
  const std::int64_t own = own_units(layer), ranks = exchange_.size();
  return sum_of_parts(parts, exchange_.size(), {parts.numel() / ranks / own, own}, sums_);
}

Exchange::Transfer Between::start_scores(std::size_t slot, const Round& round, std::int64_t views,
                                         const Tensor& own) {
  const std::int64_t rows = rows_of(round.pieces[me()], views);
  std::vector<std::size_t> to, from;
  for (std::size_t q = 0; q < round.pieces.size(); ++q) {
    to.push_back(elements(rows_of(round.pieces[q], views), own_units(last())));
    from.push_back(elements(rows, units(last())[q]));
  }
  return exchange_.start_to_each(Kind::scores, key_of(slot, false), own.to(wire_), to, from);
}

Tensor Between::finish_scores(Exchange::Transfer& transfer) {
  return columns_of(exchange_.finish(transfer), units(last()));
}

Exchange::Transfer Between::start_score_gradients(std::size_t slot, const Round& round,
                                                  std::int64_t views, const Tensor& gradient) {
  std::vector<std::size_t> to, from;
  for (std::size_t q = 0; q < round.pieces.size(); ++q) {
    to.push_back(elements(gradient.size(0), units(last())[q]));
    from.push_back(elements(rows_of(round.pieces[q], views), own_units(last())));
  }
  return exchange_.start_to_each(Kind::scores, key_of(slot, true),
                                 blocks_of(gradient.to(wire_), units(last())), to, from);
}

Tensor Between::finish_score_gradients(Exchange::Transfer& transfer) {
  return exchange_.finish(transfer).view({-1, own_units(last())});
}

}  // namespace convoy::train
