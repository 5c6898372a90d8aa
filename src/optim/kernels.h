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

}  // namespace convoy::optim
