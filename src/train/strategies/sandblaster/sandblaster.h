// The strategy "sandblaster": batch optimization around a parameter server (docs/sandblaster.md).
#pragma once

namespace convoy::train {
class Registry;
void add_sandblaster(Registry& registry);
}  // namespace convoy::train
