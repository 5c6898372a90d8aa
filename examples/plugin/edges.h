// A layer of one's own of which machines can compute parts, and a network that has one.
#pragma once

#include <convoy/train/registry.h>

// The model `edges`.
void add_edges(convoy::train::Registry& registry);
