// Synchronous data-parallel SGD (Kumar et al. 2017, Algorithm 1).
#pragma once

namespace convoy::train {

class Registry;
void add_sync(Registry& registry);

}  // namespace convoy::train
