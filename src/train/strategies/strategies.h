// The strategies that Convoy brings.
#pragma once

namespace convoy::train {

class Registry;
void add_strategies(Registry& registry);

}  // namespace convoy::train
