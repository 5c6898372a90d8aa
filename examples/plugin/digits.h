// A task of one's own: the sum of digits, learned from sequences of different lengths.
#pragma once

#include <convoy/train/registry.h>

// The reader `digits`, the task `running_sum` and the model `adder`.
void add_digits(convoy::train::Registry& registry);
