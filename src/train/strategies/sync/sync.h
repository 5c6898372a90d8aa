// Synchronous data-parallel SGD (Kumar et al. 2017, Algorithm 1).
#pragma once

#include <memory>

namespace convoy::train {

class Registry;
class Strategy;
void add_sync(Registry& registry);
// Makes one for strategies of which it is a part.
std::unique_ptr<Strategy> make_sync();

}  // namespace convoy::train
