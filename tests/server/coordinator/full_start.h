// An iteration of L-BFGS that begins with all that can be known.
#pragma once

#include <cstdint>
#include <vector>

#include "server/coordinator/batch_record.h"

namespace convoy::server::coordinator::test {

// With so many steps, and the products of all of their vectors, the gradient and the last change
// with each other.
inline BatchStart full_start(int history) {
  using optim::VectorName;
  using optim::VectorRole;
  BatchStart start;
  start.begun = true;
  optim::BatchState& state = start.state;
  state.iteration = history + 5;
  state.weights = {VectorRole::weights, state.iteration, 1};
  state.loss = 0.5;
  std::vector<VectorName> names = {optim::gradient_of(state.weights)};
  for (std::int64_t i = 1; i <= history; ++i) {
    state.history.push_back(i);
    names.push_back({VectorRole::step, i, 0});
  }
  for (std::int64_t i = 1; i <= history; ++i) names.push_back({VectorRole::change, i, 0});
  names.push_back({VectorRole::change, state.iteration, 0});
  double product = 1;
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (std::size_t b = a; b < names.size(); ++b)
      state.products.emplace_hint(state.products.end(), optim::VectorPair{names[a], names[b]},
                                  product += 0.25);
  }
  return start;
}

}  // namespace convoy::server::coordinator::test
