// An optimizer of one's own: Lion (Chen et al. 2023, "Symbolic Discovery of Optimization
// Algorithms", algorithm 2).
#pragma once

#include <convoy/train/update_rule.h>

#include <memory>

// Every weight moves by the learning rate, in the direction that a mean of its gradients says.
std::unique_ptr<convoy::train::UpdateRule> lion(double beta1, double beta2, double weight_decay);
