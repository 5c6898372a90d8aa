// The loops of the rules, private to the optim layer. Arguments are checked by update().
//
// Written for the vectorizer: restrict pointers, no branch inside a loop, scalars already in T.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/optim/rule.h"

namespace convoy::optim {

template <typename T>
struct Arrays {
  std::size_t size;
  T* weights;
  const T* gradient;
  T* state[Slots::kMaxSlots];
};

template <typename T>
void sgd_step(const Sgd& rule, std::int64_t step, const Arrays<T>& arrays);

template <typename T>
void sgd_velocity_step(const SgdVelocity& rule, const Arrays<T>& arrays);

// decoupled: AdamW's decay instead of Adam's.
template <typename T>
void adam_step(const Adam& rule, bool decoupled, std::int64_t step, const Arrays<T>& arrays);

template <typename T>
void adagrad_step(const Adagrad& rule, std::int64_t step, const Arrays<T>& arrays);

// Of Lars: sums of squares of the weights and the gradient.
template <typename T>
Squares lars_squares(std::size_t size, const T* weights, const T* gradient);

// Lamb's two parts; `weights` are only read by the first, whatever `arrays` has of them.
template <typename T>
Squares lamb_accumulate(const Lamb& rule, std::int64_t step, const T* weights,
                        const Arrays<T>& arrays);
template <typename T>
void lamb_apply(const Lamb& rule, std::int64_t step, double ratio, const Arrays<T>& arrays);

}  // namespace convoy::optim
